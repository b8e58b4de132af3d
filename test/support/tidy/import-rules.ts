/** Rules about imports: their direction, concrete drivers, dead files, and production packages. */
import {
  eachFile,
  file,
  type Import,
  importsOf,
  isCode,
  isProduct,
  isTest,
  type Rule,
  type SourceFile,
  type Violation,
} from './source.ts';

interface Allowed {
  /** Folders or single files under src. */
  any: string[];
  /** May be imported for their types only. */
  types?: string[];
}

const provisioning = ['lifecycle', 'contract', 'store', 'engine', 'drivers/driver.ts'];

const contractWithoutSchemas = [
  'addresses.generated.ts',
  'client.ts',
  'errors/errors.ts',
  'errors/path-faults.ts',
  'evidence/evidence-layers.ts',
  'evidence/integrity',
  'pool-fields/masked.ts',
  'security/roles.ts',
].map((name) => `contract/${name}`);

/** ARCHITECTURE.md explains this table. Every folder may also import itself and `base`. */
const mayImport: Record<string, Allowed> = {
  base: { any: [] },
  lifecycle: { any: [] },
  contract: { any: ['lifecycle'] },
  engine: { any: ['lifecycle'] },
  store: { any: ['lifecycle', 'contract'] },
  drivers: { any: ['lifecycle', 'contract'] },
  probe: { any: ['contract'] },
  operations: { any: provisioning },
  sweeps: { any: [...provisioning, 'operations', 'probe'] },
  api: { any: ['lifecycle', 'contract', 'store', 'operations'] },
  doctor: { any: ['contract'] },
  agent: { any: ['lifecycle', 'contract', 'doctor'] },
  relay: { any: ['contract'] },
  backup: { any: ['lifecycle', 'contract', 'store', 'engine', 'operations/runtime/start-failure.ts'] },
  // Loading the validators takes longer than most commands.
  cli: { any: ['lifecycle', 'doctor', ...contractWithoutSchemas], types: ['contract'] },
  // The typed client and the masks carry no schema, so the console may run them. The rest of the
  // contract would bring in its validators.
  console: { any: ['lifecycle', 'contract/client.ts', 'contract/pool-fields/masked.ts'], types: ['contract'] },
};

const isCompositionRoot = (path: string) => path === 'src/main.ts' || path.startsWith('src/server/');

const within = (path: string, place: string) => path === place || path.startsWith(`${place}/`);

function folderOf(path: string): string {
  return path.startsWith('console/') ? 'console' : (path.split('/')[1] ?? '');
}

function forbidden(folder: string, allowed: Allowed, { target, typeOnly }: Import): boolean {
  // Every program may report its version.
  if (target === 'package.json') return false;
  if (target.startsWith('console/')) return folder !== 'console';
  if (!target.startsWith('src/') || isTest(target)) return true;
  const inside = target.slice('src/'.length);
  const allowedPlaces = [folder, 'base', ...allowed.any, ...(typeOnly ? (allowed.types ?? []) : [])];
  return !allowedPlaces.some((place) => within(inside, place));
}

function wrongImports(source: SourceFile): string[] {
  const folder = folderOf(source.path);
  const allowed = mayImport[folder];
  if (!allowed) return [`is in "${folder}", which has no line in the import table (test/support/tidy/import-rules.ts)`];
  return importsOf(source)
    .filter((each) => each.own && forbidden(folder, allowed, each))
    .map(({ target }) => `imports ${target}, which "${folder}" must not import`);
}

const importDirection: Rule = {
  name: 'imports follow the direction of the architecture',
  check: eachFile((path) => isProduct(path) && !isCompositionRoot(path), wrongImports),
  broken: [
    [file('src/lifecycle/a.ts', "import { b } from '../store/b.ts';")],
    [file('src/lifecycle/a.ts', "import type { B } from '../contract/b.ts';")],
    [file('src/base/a.ts', "export * from '../lifecycle/b.ts';")],
    [file('src/operations/a.ts', "const b = await import('../sweeps/b.ts');")],
    [file('src/operations/a.ts', "import { b } from '../drivers/local/b.ts';")],
    [file('src/probe/a.ts', "import { b } from '../lifecycle/b.ts';")],
    [file('src/operations/a.ts', "import { b } from '../probe/b.ts';")],
    [file('src/api/a.ts', "type B = import('../engine/b.ts').B;")],
    [file('src/cli/a.ts', "import { b } from '../main.ts';")],
    [file('src/cli/a.ts', "import { b } from '../contract/routes.ts';")],
    [file('src/store/a.ts', "import { b } from '../../test/support/b.ts';")],
    [file('src/store/a.ts', "import { b } from './b.test.ts';")],
    [file('src/elsewhere/a.ts', '')],
    [file('console/src/a.tsx', "import { b } from '../../src/contract/b.ts';")],
    [file('console/src/a.tsx', "import type { b } from '../../src/store/b.ts';")],
  ],
  fine: [
    file('src/main.ts', "import { b } from './drivers/local/b.ts';"),
    file(
      'src/lifecycle/a.ts',
      "import { b } from './b.ts'; import { c } from '../base/c.ts'; import x from 'node:fs';",
    ),
    file('src/sweeps/a.ts', "import type { b } from '../drivers/driver.ts'; import { c } from '../operations/c.ts';"),
    file('src/sweeps/b.ts', "import { b } from '../probe/b.ts';"),
    file('src/probe/a.ts', "import { b } from '../base/b.ts'; import type { c } from '../contract/c.ts';"),
    file('src/lifecycle/a.test.ts', "import { b } from '../store/b.ts';"),
    file('console/src/a.tsx', "import type { b } from '../../src/contract/b.ts'; import { c } from './c.tsx';"),
    file(
      'console/src/b.ts',
      "import { b } from '../../src/contract/client.ts'; import { c } from '../../src/lifecycle/c.ts';",
    ),
  ],
};

/** The driver whose folder holds this file, if any. */
const driverOf = (path: string): string | undefined => /^src\/drivers\/([^/]+)\//.exec(path)?.[1];

const concreteDrivers: Rule = {
  name: 'only the composition root and the tests name a concrete driver',
  check: eachFile(
    (path) => isProduct(path) && !isCompositionRoot(path),
    (source) =>
      importsOf(source)
        .filter(({ target }) => driverOf(target) !== undefined && driverOf(target) !== driverOf(source.path))
        .map(({ target }) => `names the concrete driver ${target}`),
  ),
  broken: [
    [file('src/drivers/registry.ts', "import { local } from './local/local-driver.ts';")],
    [file('src/drivers/external/a.ts', "import { local } from '../local/local-driver.ts';")],
    [file('src/operations/a.ts', "import type { Local } from '../drivers/local/local-driver.ts';")],
  ],
  fine: [
    file('src/main.ts', "import { local } from './drivers/local/local-driver.ts';"),
    file('src/drivers/local/a.ts', "import { b } from './b.ts'; import { c } from '../driver.ts';"),
  ],
};

const entryPoints = [
  'src/main.ts',
  'src/server/upgrade.ts',
  'src/server/admin.ts',
  'src/cli/main.ts',
  'src/agent/main.ts',
  'src/relay/main.ts',
  'src/backup/main.ts',
];

/** Files that only tests and benchmarks use, on purpose. */
const checkers = [
  'src/base/virtual-clock.ts',
  'src/engine/virtual-engine.ts',
  'src/lifecycle/model/model-checker.ts',
  'src/store/history/projection.ts',
];
const isMadeForTests = (path: string) => checkers.includes(path) || /[/-](conformance|testing)(\/|\.ts$)/.test(path);

const isConsole = (path: string) => path.startsWith('console/src/');

function reachedFrom(starts: string[], code: Map<string, SourceFile>): Set<string> {
  const reachedPaths = new Set<string>();
  const waiting = [...starts];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const source = code.get(path);
    if (!source || reachedPaths.has(path)) continue;
    reachedPaths.add(path);
    waiting.push(...importsOf(source).map(({ target }) => target));
  }
  return reachedPaths;
}

const codeIn = (files: SourceFile[]) =>
  new Map(files.filter(({ path }) => isCode(path)).map((each) => [each.path, each]));

function deadFiles(files: SourceFile[]): Violation[] {
  const code = codeIn(files);
  const paths = [...code.keys()];
  const starts = paths.filter((path) => entryPoints.includes(path) || isMadeForTests(path) || isConsole(path));
  const reachedPaths = reachedFrom(starts, code);
  return [
    ...entryPoints
      .filter((path) => !code.has(path))
      .map((path) => ({ path, what: 'is an entry point and is not there' })),
    ...paths
      .filter((path) => path.startsWith('src/') && isProduct(path) && !reachedPaths.has(path))
      .map((path) => ({ path, what: 'is not reached from any entry point' })),
  ];
}

const entries = entryPoints.map((path) => file(path, ''));

const noDeadFiles: Rule = {
  name: 'every file is reachable from an entry point',
  check: deadFiles,
  broken: [
    [...entries, file('src/store/forgotten.ts', '')],
    [...entries, file('src/store/only-tested.ts', ''), file('src/store/a.test.ts', "import './only-tested.ts';")],
    [...entries, file('src/a/b.ts', "import './c.ts';"), file('src/a/c.ts', "import './b.ts';")],
    entries.slice(1),
  ],
  fine: [
    file('src/main.ts', "import './store/a.ts'; const worker = new URL('./store/worker.ts', import.meta.url);"),
    file('src/store/a.ts', "export * from './b.ts'; import('./c.ts'); export type T = import('./d.ts').T;"),
    ...['b', 'c', 'd', 'worker', 'a.test'].map((name) => file(`src/store/${name}.ts`, '')),
    ...entries.slice(1),
  ],
};

/** `@scope/name/part` and `name/part` belong to the package that the manifest lists. */
const packageOf = (specifier: string) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');

function undeclaredPackages(files: SourceFile[]): Violation[] {
  const manifest = files.find(({ path }) => path === 'package.json');
  if (!manifest) return [];
  const { dependencies = {} } = JSON.parse(manifest.text) as { dependencies?: Record<string, string> };
  const code = codeIn(files);
  return [...reachedFrom(entryPoints, code)].flatMap((path) => {
    const source = code.get(path);
    const packages = source ? importsOf(source).filter(({ own, typeOnly }) => !own && !typeOnly) : [];
    return packages
      .filter(({ target }) => !target.startsWith('node:') && !(packageOf(target) in dependencies))
      .map(({ target }) => ({
        path,
        what: `runs in production and imports ${target}, which is no dependency of production`,
      }));
  });
}

const manifest = file(
  'package.json',
  '{ "dependencies": { "pg": "1", "@a/b": "1" }, "devDependencies": { "vitest": "1" } }',
);

const declaredPackages: Rule = {
  name: 'code that runs in production imports only production packages',
  check: undeclaredPackages,
  broken: [
    [manifest, file('src/main.ts', "import { test } from 'vitest';")],
    [manifest, file('src/main.ts', "import './a.ts';"), file('src/a.ts', "const b = await import('vitest/node');")],
    [manifest, file('src/agent/main.ts', "import a from '@a/c';")],
  ],
  fine: [
    manifest,
    file('src/main.ts', "import 'node:fs'; import 'pg/lib/a.js'; import '@a/b/c'; import type { A } from 'vitest';"),
    file('src/engine/conformance/a.ts', "import { test } from 'vitest';"),
  ],
};

export const importRules: Rule[] = [importDirection, concreteDrivers, noDeadFiles, declaredPackages];
