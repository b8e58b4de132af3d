/**
 * Tests with foreign programs. They run where set-up could install the program, and otherwise
 * report why not.
 */
import { describe, expect, it } from 'vitest';
import { findOutsider, type Outsider, type OutsiderName } from '../../../scripts/setup/outsiders.mjs';

/** `npm run test:outsiders` runs everything, `npm test` a share of it. */
export const isWhole = process.env.SLIPWAY_OUTSIDERS === 'whole';
export const share = <T>(part: T, whole: T): T => (isWhole ? whole : part);

/** `obstacle` says why it cannot run here although it is installed. */
export function withOutsider(name: OutsiderName, tests: (outsider: Outsider) => void, obstacle?: string): void {
  const found = obstacle === undefined ? findOutsider(name) : { missing: obstacle };
  describe(name, () => {
    if ('missing' in found)
      it(`is not tested: ${found.missing}`, () => {
        process.stderr.write(`not tested with ${name}: ${found.missing}\n`);
        // CI has every program, so a missing one there is a fault of set-up.
        expect(process.env.CI, found.missing).not.toBe('true');
      });
    else tests(found);
  });
}
