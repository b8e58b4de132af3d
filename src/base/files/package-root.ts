/** Finds the directory of this package, also if it runs from a bundle or an installed copy. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Walks up instead of counting levels, because a bundle lies at another depth than its sources. */
function nearestPackage(directory: string): string {
  if (existsSync(join(directory, 'package.json'))) return directory;
  const parent = dirname(directory);
  if (parent === directory) throw new Error(`no package.json in any directory above ${import.meta.dirname}`);
  return nearestPackage(parent);
}

export const packageRoot = nearestPackage(import.meta.dirname);

export function packageVersion(): string {
  return (JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }).version;
}
