/**
 * Registers tests that need a third-party program. If set-up could not install the program, one
 * test reports why.
 */
import { describe, expect, it } from 'vitest';
import { findOutsider, type Outsider, type OutsiderName } from '../../../scripts/setup/outsiders.mjs';

/** True for `npm run test:outsiders`, which runs everything. `npm test` runs a part. */
export const isWhole = process.env.SLIPWAY_OUTSIDERS === 'whole';
export const share = <T>(part: T, whole: T): T => (isWhole ? whole : part);

/** `obstacle` says why the program cannot run on this machine although it is installed. */
export function withOutsider(name: OutsiderName, tests: (outsider: Outsider) => void, obstacle?: string): void {
  const outsider = obstacle === undefined ? findOutsider(name) : { missing: obstacle };
  describe(name, () => {
    if ('missing' in outsider)
      it(`is not tested: ${outsider.missing}`, () => {
        process.stderr.write(`not tested with ${name}: ${outsider.missing}\n`);
        // CI must have every program, so a missing program fails the run there.
        expect(process.env.CI, outsider.missing).not.toBe('true');
      });
    else tests(outsider);
  });
}
