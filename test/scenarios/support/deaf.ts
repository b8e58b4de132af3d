/** For counter-tests: a server that says it hears all the time, and so does not notice when it did not. */
import { now } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/main.ts';

export const neverDeaf: Composition = {
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
