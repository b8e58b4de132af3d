/**
 * Root is denied almost nothing, so this runs as a plain user. A release that the host denies must
 * end truthfully too.
 */
import type { Driver } from '../../../src/drivers/driver.ts';
import { becomePlainUser } from '../../support/run/plain-user.ts';
import { undeletable } from '../support/hard-endings.ts';
import { scenario } from '../support/scenario.ts';

becomePlainUser();

/** Ends nothing and reports absence without looking. */
const careless = (driver: Driver): Driver => ({
  ...driver,
  destroy: async () => ({ outcome: 'done', message: 'surely gone' }),
  prove: async (_, { kind, nonce }) => ({ outcome: 'done', proof: { kind, nonce, checked: [] } }),
});

scenario({
  name: 'a directory that a plain user may not delete',
  story: undeletable,
  counters: [
    {
      broken: 'a driver that ends nothing and proves what it did not see',
      composition: {
        drivers: (built) =>
          new Map([...built].map(([name, driver]) => [name, name === 'local' ? careless(driver) : driver])),
      },
      fails: /how its release ended/,
    },
  ],
});
