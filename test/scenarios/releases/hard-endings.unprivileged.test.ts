/**
 * A release that the host denies must fail with its cause. Root is denied almost nothing, so this
 * file runs as a plain user.
 */
import type { Driver } from '../../../src/drivers/driver.ts';
import { becomePlainUser } from '../../support/run/plain-user.ts';
import { expectFailureWhileUndeletable } from '../support/hard-endings.ts';
import { scenario } from '../support/scenario.ts';

becomePlainUser();

/** A driver that ends nothing and reports absence without checking. */
const fakesTeardown = (driver: Driver): Driver => ({
  ...driver,
  destroy: async () => ({ outcome: 'done', message: 'not ended' }),
  prove: async (_, { kind, nonce }) => ({ outcome: 'done', proof: { kind, nonce, checked: [] } }),
});

scenario({
  name: 'a directory that a plain user may not delete',
  story: expectFailureWhileUndeletable,
  counterTests: [
    {
      broken: 'a driver that ends nothing and reports absence without checking',
      composition: {
        drivers: (built) =>
          new Map([...built].map(([name, driver]) => [name, name === 'local' ? fakesTeardown(driver) : driver])),
      },
      fails: /the status after the release/,
    },
  ],
});
