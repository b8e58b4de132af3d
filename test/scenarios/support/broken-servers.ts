/** Server compositions with one part broken, for counter-tests. */
import { now } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/server/opening.ts';

/** Reports that ingest never stopped, so the server never notices that it missed heartbeats. */
export const claimsSteadyIngest: Composition = {
  sweeps: (registry, { ingest, db, executor, clock }) => {
    const check = async () => {
      const values = [executor.replica_id, now(clock)];
      await db.query('update replicas set flushed_through = $2 where replica_id = $1', values);
      return { gap: false };
    };
    Object.assign(ingest, { check, isSteady: () => true });
    return registry;
  },
};

/**
 * Keeps clearing `unproven_since`, which marks machines whose allocation moved to another machine
 * before they were cleaned.
 */
export const forgetsUnproven: Required<Pick<Composition, 'sweeps'>> = {
  sweeps: (registry, services) => [
    {
      name: 'forgetful',
      every_seconds: 0.05,
      run: async () => {
        await services.db.query('update instances set unproven_since = null');
        return { decided: 0 };
      },
    },
    ...registry,
  ],
};
