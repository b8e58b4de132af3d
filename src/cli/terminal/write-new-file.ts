import { writeFileSync } from 'node:fs';
import { CliFailure } from './failure.ts';

/** Never overwrites a file. `contentName` is for the error. */
export function writeNewFile(path: string, content: string | Buffer, contentName: string, mode = 0o666): void {
  try {
    writeFileSync(path, content, { mode, flag: 'wx' });
  } catch (error) {
    throw new CliFailure('failed', `Cannot write the ${contentName} to ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name another file with --output.',
      cause: error,
    });
  }
}
