/** Prints the output of set-up, and runs programs that print only if they fail. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
export const inRoot = (...parts) => join(root, ...parts);

/** A failure with instructions for the user. Any other exception is a defect. */
export class SetupError extends Error {}

/** Prints to standard error, so that the output of a command stays clean. */
export const say = (line) => process.stderr.write(`slipway: ${line}\n`);

export const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

export function runQuietly(what, program, args, options = {}) {
  const result = spawnSync(program, args, { cwd: root, encoding: 'utf8', maxBuffer: 64 << 20, ...options });
  if (result.error) throw new SetupError(`${what} could not be started: ${result.error.message}`);
  if (result.status === 0) return;
  process.stderr.write(`${result.stdout}${result.stderr}\n`);
  const end = result.signal ? `was ended by ${result.signal}` : `ended with status ${result.status}`;
  throw new SetupError(`${what} ${end}; its output is above.`);
}
