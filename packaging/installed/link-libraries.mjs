/**
 * Creates the links between PostgreSQL's libraries that the npm package lists in a file. The
 * argument is the folder `native` of the package.
 */
import { readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const directory = dirname(join(process.argv[2], '.'));
for (const { source, target } of JSON.parse(readFileSync(join(directory, 'native/pg-symlinks.json'), 'utf8'))) {
  try {
    symlinkSync(relative(dirname(target), source), join(directory, target));
  } catch (error) {
    if (error.code === 'EEXIST') continue;
    process.stderr.write(
      `slipway: PostgreSQL's libraries cannot be linked: ${error.message}\n` +
        'slipway: Run `slipway serve --help` once as the user that installed the package.\n',
    );
    process.exit(1);
  }
}
