/** `row-retention`: deletes rows whose retention time is over, in batches. */
import { createPruner } from '../../store/retention/prune.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** A backlog, as after an upgrade, is deleted with three seconds of rest per second of work. */
const restFactor = 3;

export function rowRetention({ db, environment, clock }: SweepServices): Sweep {
  const pruner = createPruner(db);
  return {
    name: 'row-retention',
    every_seconds: 600,
    async run(now) {
      const startedMs = clock.monotonicMs();
      const { deleted, more, failures } = await pruner.pass(environment.retention.keep_seconds, now);
      if (failures.length > 0) throw new Error(`rows that could not be deleted: ${failures.join('; ')}`);
      const tookSeconds = (clock.monotonicMs() - startedMs) / 1000;
      return { decided: deleted, ...(more && { next_in_seconds: restFactor * tookSeconds }) };
    },
  };
}
