/**
 * Registers tests that need a program of the host. Without it, one test reports why they do not
 * run.
 */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** `obstacle` says why the program cannot run on this host; null if it can. */
export function unlessHindered(name: string, obstacle: string | null, tests: () => void): void {
  if (obstacle === null) tests();
  else
    test(`${name}: not tested, because ${obstacle}`, () => {
      process.stderr.write(`${name}: not tested, because ${obstacle}\n`);
      // CI must have every program, so a missing program fails the run there.
      expect(process.env.CI, obstacle).not.toBe('true');
    });
}

const oldestSystemd = 250;

/** systemd 250 was the first to check a unit without a running systemd. */
export function systemdObstacle(): string | null {
  const { status, stdout } = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  if (status !== 0) return 'this host has no systemd-analyze';
  const version = Number(/^systemd (\d+)/.exec(stdout)?.[1]);
  return version >= oldestSystemd ? null : `systemd ${version} of this host is older than ${oldestSystemd}`;
}
