/**
 * Makes a test file go on as a plain user where root started it, because root is refused almost nothing. There is no way
 * back, so the file is named `*.unprivileged.test.ts`: such files have a process of their own (vitest.config.ts).
 */
import { expect } from 'vitest';

const nobody = 65_534;

export function becomePlainUser(): void {
  if (!expect.getState().testPath?.endsWith('.unprivileged.test.ts'))
    throw new Error('a file that gives up the rights of root is named *.unprivileged.test.ts');
  if (process.getuid?.() !== 0) return;
  process.setgroups?.([]);
  process.setgid?.(nobody);
  process.setuid?.(nobody);
}
