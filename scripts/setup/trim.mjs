/**
 * Deletes files from an installation without development packages that neither the server nor the
 * build of the console reads. They are a third of its size.
 */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Marks a trimmed installation, where a type check would fail for want of declarations. */
const markFile = '.trimmed';

/** Source maps, declarations and sources: Node refuses to run TypeScript inside node_modules. */
const unreadFile = /\.(map|[cm]?ts)$/;

/** Paths that a server never reads, in packages whose names match. */
const unreadPaths = [
  { packages: /^node-linux-/, paths: ['include', 'share', 'CHANGELOG.md'] },
  // @azure/identity loads it in browsers only.
  { packages: /^@azure\/msal-browser$/, paths: ['dist', 'lib', 'src', 'types'] },
  { packages: /^@(azure|azure-rest|typespec)\//, paths: ['dist/browser', 'dist/react-native', 'dist/workerd'] },
  { packages: /^superjson$/, paths: ['src'] },
  { packages: /^bintrees$/, paths: ['test'] },
];

/** Skips links, which lead to the workspaces of the clone, and the folder `.cache`. */
const foldersIn = (path) =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => name);

const packagesIn = (nodeModules) =>
  foldersIn(nodeModules).flatMap((name) =>
    name.startsWith('@') ? foldersIn(join(nodeModules, name)).map((inner) => `${name}/${inner}`) : [name],
  );

function* filesBelow(directory) {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else yield path;
  }
}

/** Lists files and folders below `nodeModules` that nothing reads without development packages. */
export function unreadIn(nodeModules) {
  return packagesIn(nodeModules).flatMap((name) => {
    const directory = join(nodeModules, name);
    const folders = unreadPaths
      .filter(({ packages }) => packages.test(name))
      .flatMap(({ paths }) => paths.map((path) => join(directory, path)))
      .filter((path) => existsSync(path));
    const isInFolder = (file) => folders.some((folder) => file === folder || file.startsWith(`${folder}/`));
    const files = [...filesBelow(directory)].filter((file) => unreadFile.test(file) && !isInFolder(file));
    return [...folders, ...files];
  });
}

export const isTrimmed = (nodeModules) => existsSync(join(nodeModules, markFile));

/** Marks first, so that an interrupted run never looks like a full installation. */
export function trim(nodeModules) {
  writeFileSync(join(nodeModules, markFile), '');
  for (const path of unreadIn(nodeModules)) rmSync(path, { recursive: true, force: true });
}
