/**
 * The server's own code in one file, for the servers that a whole run starts as processes: reading and stripping four hundred files
 * takes each of them a quarter of its start. Packages stay where they are, and whoever runs a single test file has the sources.
 */
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { root } from './stage.ts';

/** Beside the sources' own folder: what the server finds from where it lies is found from here too. */
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
