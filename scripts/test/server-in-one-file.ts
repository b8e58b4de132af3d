/**
 * Bundles the code of the server for the server processes that a whole run starts: reading and
 * stripping hundreds of files takes a quarter of each start. Packages are not bundled. A run of a
 * single test file uses the sources.
 */
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { root } from './stage.ts';

/** The folder is as deep in the tree as `src`, so that paths relative to the module stay valid. */
const folder = join(root, 'dist');
const isPackage = /^[^./]/;

const bundle = await rolldown({ cwd: root, input: 'src/main.ts', platform: 'node', external: isPackage });
await bundle.write({
  dir: folder,
  format: 'esm',
  entryFileNames: 'test-server.mjs',
  chunkFileNames: 'test-server-[name].mjs',
});
const migrations = join(folder, 'migrations');
rmSync(migrations, { force: true });
symlinkSync('../src/store/migrations', migrations);
