/**
 * Registers tests that need a program on the host. If it is missing, registers one test instead,
 * which reports why the others do not run.
 */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** `obstacle` says why the program cannot run on this host; null if it can. */
export function testsUnless(name: string, obstacle: string | null, tests: () => void): void {
  if (obstacle === null) tests();
  else
    test(`${name}: not tested, because ${obstacle}`, () => {
      process.stderr.write(`${name}: not tested, because ${obstacle}\n`);
      // CI must have every program, so a missing program fails the run there.
      expect(process.env.CI, obstacle).not.toBe('true');
    });
}

const minSystemd = 250;

/** `systemd-analyze security --offline` needs systemd 250. */
export function systemdObstacle(): string | null {
  const { status, stdout } = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  if (status !== 0) return 'this host has no systemd-analyze';
  const version = Number(/^systemd (\d+)/.exec(stdout)?.[1]);
  return version >= minSystemd ? null : `this host has systemd ${version}, and the test needs ${minSystemd} or newer`;
}
