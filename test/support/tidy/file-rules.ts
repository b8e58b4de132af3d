/** Rules about files: their names, their size, and text that no file may contain. */
import { eachFile, file, isCode, isGenerated, isProduct, nodesOf, parse, type Rule } from './source.ts';

const noAny: Rule = {
  name: 'no any',
  check: eachFile(isCode, (source) => nodesOf(source, 'TSAnyKeyword').map(() => 'uses any')),
  broken: ['const a = b as any;', 'const a = (b: any) => b;', 'type A = Record<string, any>;'].map((text) => [
    file('test/a.ts', text),
  ]),
  fine: [file('src/a.ts', "// any\nconst any = 'any'; const a = b as unknown;")],
};

const silencers = /^\s*@ts-(ignore|nocheck|expect-error)\b/;

const nothingSilenced: Rule = {
  name: 'no type error is silenced',
  check: eachFile(isCode, (source) =>
    parse(source)
      .comments.filter((comment) => silencers.test(comment))
      .map((comment) => `says ${comment.trim()}`),
  ),
  broken: ['ignore', 'nocheck', 'expect-error because'].map((word) => [file('src/a.ts', `// @ts-${word}\nlet a = 1;`)]),
  fine: [file('src/a.ts', "// Never write @ts-ignore.\nconst a = '// @ts-ignore';")],
};

const meaninglessNames = /(^|[-./])(utils?|helpers?|commons?|managers?|misc)([-./]|$)/;

const meaningfulNames: Rule = {
  name: 'no meaningless file names, and no barrels',
  check: eachFile(isCode, ({ path }) => {
    const problems = [];
    if (meaninglessNames.test(path)) problems.push('has a name that does not say what it is');
    if (/(^|\/)index\.(ts|tsx|mjs)$/.test(path)) problems.push('is a barrel');
    return problems;
  }),
  broken: [
    'src/store/utils.ts',
    'src/helpers/a.ts',
    'src/sweep-manager.ts',
    'console/src/common.tsx',
    'src/api/index.ts',
  ].map((path) => [file(path, '')]),
  fine: [file('src/api/uncommon-index.ts', ''), file('console/src/FleetPage.tsx', '')],
};

const fileName = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z]+)*\.(?:ts|tsx|mjs)$/;
const componentName = /^(?:[A-Z][a-z0-9]*)+(?:\.[a-z]+)*\.tsx$/;

const kebabCase: Rule = {
  name: 'files are named in kebab-case, components in PascalCase',
  check: eachFile(isCode, ({ path }) => {
    const name = path.split('/').at(-1) ?? '';
    const fits = fileName.test(name) || componentName.test(name);
    return fits ? [] : ['is named neither in kebab-case nor, as a component, in PascalCase'];
  }),
  broken: ['src/store/nodeRules.ts', 'src/store/node_rules.ts', 'console/src/fleetPage.tsx'].map((path) => [
    file(path, ''),
  ]),
  fine: [
    file('src/store/node-rules.test.ts', ''),
    file('vitest.config.ts', ''),
    file('console/src/FleetPage.tsx', ''),
    file('console/src/api/routes.generated.ts', ''),
  ],
};

const maxLines = 400;

const smallFiles: Rule = {
  name: 'no file is too long',
  check: eachFile(
    (path) => isProduct(path) && !isGenerated(path),
    ({ text }) => {
      const lines = text.split('\n').length - 1;
      return lines > maxLines ? [`has ${lines} lines`] : [];
    },
  ),
  broken: [[file('src/a.ts', '\n'.repeat(maxLines + 1))]],
  fine: [file('src/a.ts', '\n'.repeat(maxLines)), file('src/b.generated.ts', '\n'.repeat(maxLines + 1))],
};

/** Assembled here, so that this file does not contain the paths it searches for. */
const machines = ['work', 'root', 'farm'].map((name) => `/${name}/`);
const machinePath = new RegExp(`(?:^|[^\\w./~-])(?:${machines.join('|')})`, 'm');

const noMachinePaths: Rule = {
  name: 'no paths of one machine',
  check: eachFile(
    () => true,
    ({ text }) => (machinePath.test(text) ? [`names the path ${machinePath.exec(text)?.[0].trim()}…`] : []),
  ),
  broken: machines.flatMap((path) => [
    [file('docs/a.md', `see ${path}main`)],
    [file('src/a.ts', `const a = '${path}x';`)],
  ]),
  fine: [
    file('docs/a.md', `/var/lib/slipway/, https://example.org${machines[0]}x, src${machines[0]}a and ~${machines[1]}`),
  ],
};

const lockNamesNoHost: Rule = {
  name: 'the package lock names no registry',
  check: eachFile(
    (path) => path === 'package-lock.json',
    ({ text }) => (/"resolved":\s*"https?:/.test(text) ? ['names the host a package came from'] : []),
  ),
  broken: [[file('package-lock.json', '"resolved": "https://registry.example/a.tgz"')]],
  fine: [file('package-lock.json', '"resolved": "console", "funding": { "url": "https://example.org" }')],
};

export const fileRules: Rule[] = [
  noAny,
  nothingSilenced,
  meaningfulNames,
  kebabCase,
  smallFiles,
  noMachinePaths,
  lockNamesNoHost,
];
