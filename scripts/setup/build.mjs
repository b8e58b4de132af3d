/** Builds the console and the agent bundle, each only if its sources changed. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodeToRun } from './install.mjs';
import { inRoot, runQuietly } from './say.mjs';

const ignoredNames = new Set(['node_modules', 'dist']);

function filesBelow(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .filter((name) => !ignoredNames.has(name) && !name.includes('.test.'))
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}

function fingerprint(sources) {
  const hash = createHash('sha256');
  for (const file of [...sources, 'package-lock.json'].flatMap((source) => filesBelow(inRoot(source)))) {
    hash.update(file).update('\0').update(readFileSync(file)).update('\0');
  }
  return hash.digest('hex');
}

/**
 * Builds next to the target and then moves the result, so that a running server never serves a
 * half-written file, and a failed build keeps the previous one.
 */
function buildStep({ what, entry, sources, output, build }) {
  const stampFile = inRoot('dist', `.${what}.stamp`);
  const target = inRoot('dist', output);
  const isCurrent = () =>
    existsSync(target) && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === fingerprint(sources);
  return {
    doing: `building the ${what}`,
    done: `${what} built`,
    needed: () => (existsSync(inRoot(entry)) ? !isCurrent() : `no ${what} to build: ${entry} does not exist`),
    run() {
      const stamp = fingerprint(sources);
      const newPath = inRoot('dist', `.new-${output}`);
      const oldPath = inRoot('dist', `.old-${output}`);
      for (const path of [newPath, oldPath]) rmSync(path, { recursive: true, force: true });
      mkdirSync(inRoot('dist'), { recursive: true });
      build(newPath);
      if (existsSync(target)) renameSync(target, oldPath);
      renameSync(newPath, target);
      rmSync(oldPath, { recursive: true, force: true });
      writeFileSync(stampFile, stamp);
    },
  };
}

const shared = ['src/base', 'src/contract', 'src/lifecycle'];

export const buildSteps = [
  buildStep({
    what: 'console',
    entry: 'console/src/app/main.tsx',
    sources: ['console', ...shared],
    output: 'console',
    build: (outDir) =>
      runQuietly(
        'vite build',
        nodeToRun(),
        [inRoot('node_modules/vite/bin/vite.js'), 'build', '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn'],
        { cwd: inRoot('console'), env: { ...process.env, NODE_ENV: 'production' } },
      ),
  }),
  buildStep({
    what: 'agent',
    entry: 'src/agent/main.ts',
    sources: ['src/agent', 'src/doctor', ...shared],
    output: 'agent.mjs',
    build: (file) =>
      runQuietly('rolldown', nodeToRun(), [
        inRoot('node_modules/rolldown/bin/cli.mjs'),
        inRoot('src/agent/main.ts'),
        ...['--file', file, '--format', 'esm', '--platform', 'node', '--no-codeSplitting', '--logLevel', 'warn'],
        ...['--transform.target', 'node20'],
      ]),
  }),
];
