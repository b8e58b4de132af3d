import { writeFileSync } from 'node:fs';
import { CliFailure } from './failure.ts';

/** Never overwrites a file. `what` names the content in an error. */
export function writeNewFile(path: string, content: string | Buffer, what: string, mode = 0o666): void {
  try {
    writeFileSync(path, content, { mode, flag: 'wx' });
  } catch (error) {
    throw new CliFailure('failed', `Cannot write the ${what} to ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name another file with --output.',
      cause: error,
    });
  }
}
