/** Names the `slipway` command as a person can type it in the current directory. */
import { existsSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import { packageRoot } from './package-root.ts';

/** Returns `slipway` if it is on the PATH, or else the path of bin/slipway in this package. */
export function programName(environment: Record<string, string | undefined>, workingDirectory: string): string {
  const isOnPath = (environment.PATH ?? '')
    .split(delimiter)
    .some((directory) => directory !== '' && existsSync(join(directory, 'slipway')));
  if (isOnPath) return 'slipway';
  const program = join(packageRoot, 'bin/slipway');
  const path = relative(workingDirectory, program);
  return path.startsWith('..') ? program : `./${path}`;
}
