/** Builds the console into a package. */
import { join } from 'node:path';
import { build } from 'vite';
import { root } from './paths.ts';

/** Writes the console below `tree` and returns the modules it contains. */
export async function buildConsole(tree: string): Promise<string[]> {
  const consoleRoot = join(root, 'console');
  const built = await build({
    root: consoleRoot,
    configFile: join(consoleRoot, 'vite.config.ts'),
    logLevel: 'error',
    mode: 'production',
    // As in programs.ts.
    resolve: { preserveSymlinks: true },
    build: { outDir: join(tree, 'dist/console'), emptyOutDir: true },
  });
  if ('close' in built) throw new Error('vite watches instead of building');
  return [built]
    .flat()
    .flatMap(({ output }) => output)
    .flatMap((part) => (part.type === 'chunk' ? part.moduleIds : []));
}
