/**
 * Drops root for the remaining test file, because root is denied almost nothing. The process cannot
 * go back, so such a file is named `*.unprivileged.test.ts` and gets its own process
 * (vitest.config.ts).
 */
import { expect } from 'vitest';

const nobodyUid = 65_534;

export function becomePlainUser(): void {
  if (!expect.getState().testPath?.endsWith('.unprivileged.test.ts'))
    throw new Error('a test file that drops root must be named *.unprivileged.test.ts');
  if (process.getuid?.() !== 0) return;
  process.setgroups?.([]);
  process.setgid?.(nobodyUid);
  process.setuid?.(nobodyUid);
}
