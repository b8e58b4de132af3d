/** Rules about folders: small folders, READMEs in src, and links to files that exist. */
import { posix } from 'node:path';
import { eachFile, file, type Rule, type SourceFile, type Violation } from './source.ts';

const maxEntries = 25;

/** Folders that may hold more, with the reason. */
const mayHoldMore: Record<string, string> = {
  'src/store/migrations': 'migrations are only ever added',
  'docs/decisions': 'decisions are only ever added',
};

/** Every folder below the root with its entries; a subfolder counts as one entry. */
function foldersOf(files: SourceFile[]): Map<string, Set<string>> {
  const folders = new Map<string, Set<string>>();
  for (const { path } of files)
    for (let at = path; at.includes('/'); at = posix.dirname(at)) {
      const folder = posix.dirname(at);
      const entries = folders.get(folder) ?? new Set();
      folders.set(folder, entries.add(at));
    }
  return folders;
}

/** A README explains its folder, so it does not count as one more entry. */
const isReadme = (path: string) => posix.basename(path) === 'README.md';

function largeFolders(files: SourceFile[]): Violation[] {
  return [...foldersOf(files)]
    .map(([path, entries]) => ({ path, size: [...entries].filter((entry) => !isReadme(entry)).length }))
    .filter(({ path, size }) => size > maxEntries && !Object.hasOwn(mayHoldMore, path))
    .map(({ path, size }) => ({ path, what: `has ${size} entries; the limit is ${maxEntries}` }));
}

const manyFiles = (folder: string, count: number) =>
  Array.from({ length: count }, (_, i) => file(`${folder}/f${i}.ts`, ''));

const smallFolders: Rule = {
  name: `no folder has more than ${maxEntries} entries`,
  check: largeFolders,
  broken: [
    manyFiles('src/store/pg', maxEntries + 1),
    [...manyFiles('docs', maxEntries), file('docs/inside/a.md', '')],
    Array.from({ length: maxEntries + 1 }, (_, i) => file(`test/room-${i}/a.ts`, '')),
  ],
  fine: [
    ...manyFiles('src/store/pg', maxEntries),
    file('src/store/pg/README.md', ''),
    ...manyFiles('src/store/migrations', maxEntries + 1),
    ...manyFiles('src/store/rows/tokens', maxEntries),
  ],
};

const readmes: Rule = {
  name: 'each folder directly under src has a README',
  check: (files) => {
    const paths = new Set(files.map(({ path }) => path));
    const folders = [...foldersOf(files).keys()].filter((path) => /^src\/[^/]+$/.test(path));
    return folders
      .filter((path) => !paths.has(`${path}/README.md`))
      .map((path) => ({ path, what: 'has no README.md' }));
  },
  broken: [[file('src/store/a.ts', '')], [file('src/store/pg/a.ts', ''), file('src/store/pg/README.md', '')]],
  fine: [file('src/store/a.ts', ''), file('src/store/README.md', ''), file('src/main.ts', ''), file('bench/a.ts', '')],
};

const namedIn = (text: string): string[] =>
  [...text.matchAll(/`([\w./-]+(?:\.ts|\/))`/g)].map(([, name = '']) => name.replace(/\/$/, ''));

const exactReadmes: Rule = {
  name: 'READMEs in src name only what exists, and those directly under src name every subfolder',
  check: (files) => {
    const folders = foldersOf(files);
    const knownPaths = new Set([...files.map(({ path }) => path), ...folders.keys()]);
    const inSrc = (path: string) => path.startsWith('src/') && isReadme(path);
    return eachFile(inSrc, ({ path, text }) => {
      const folder = posix.dirname(path);
      const isDirectlyInSrc = posix.dirname(folder) === 'src';
      const named = namedIn(text);
      const missingNames = named.filter(
        (name) => ![folder, 'src', '.'].some((from) => knownPaths.has(posix.join(from, name))),
      );
      const subfolders = [...(isDirectlyInSrc ? (folders.get(folder) ?? []) : [])]
        .filter((entry) => folders.has(entry))
        .map((entry) => posix.basename(entry));
      const missingSubfolders = subfolders.filter((subfolder) => subfolder !== 'testing' && !named.includes(subfolder));
      return [
        ...missingNames.map((name) => `names ${name}, which is not there`),
        ...missingSubfolders.map((subfolder) => `leaves out ${subfolder}/`),
      ];
    })(files);
  },
  broken: [
    [file('src/store/README.md', 'Open `nodes.ts`.')],
    [file('src/store/rows/README.md', 'Open `nodes.ts`.')],
    [file('src/store/README.md', 'See `rows/`.'), file('src/store/rows/a.ts', ''), file('src/store/pg/a.ts', '')],
  ],
  fine: [
    file('src/store/README.md', 'See `rows/`, `rows/a.ts`, `migrate-*.ts`, `docs/b/` and `lifecycle/c.ts`.'),
    ...['src/store/rows/a.ts', 'src/store/testing/a.ts', 'docs/b/c.md', 'src/lifecycle/c.ts'].map((path) =>
      file(path, ''),
    ),
    file('src/store/rows/README.md', 'See `a.ts` and `lifecycle/c.ts`.'),
    file('bench/README.md', '`gone.ts`'),
  ],
};

const isImage = /\.(png|jpg|jpeg|gif|svg)$/;

/** The files and folders that a page links to, as paths from the root. */
function linksOf({ path, text }: SourceFile): string[] {
  const targets = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)\s]*)?\)/g)].map(([, target = '']) => target);
  return targets
    .filter((target) => !/^[a-z]+:|^\//.test(target) && !isImage.test(target))
    .map((target) => posix.join(posix.dirname(path), target).replace(/\/$/, ''));
}

const deadLinks = (files: SourceFile[]): Violation[] => {
  const knownPaths = new Set([...files.map(({ path }) => path), ...foldersOf(files).keys()]);
  return eachFile(
    (path) => path.endsWith('.md'),
    (page) =>
      linksOf(page)
        .filter((target) => !knownPaths.has(target))
        .map((target) => `links to ${target}, which is not there`),
  )(files);
};

const linksLeadSomewhere: Rule = {
  name: 'pages link to files that exist',
  check: deadLinks,
  broken: [
    [file('docs/a.md', 'See [b](b.md).')],
    [file('docs/a.md', 'See [b](../README.md#start).')],
    [file('docs/a/b.md', 'See [c](c.md).'), file('docs/c.md', '')],
  ],
  fine: [
    file('docs/a.md', 'See [b](b.md#part), [c](../src/c/), [d](https://example.org/x.md), [e](#here), ![f](f.png).'),
    file('docs/b.md', ''),
    file('src/c/d.ts', ''),
    file('src/c/README.md', ''),
  ],
};

export const folderRules: Rule[] = [smallFolders, readmes, exactReadmes, linksLeadSomewhere];
