/**
 * `housekeeping`: deletes rows and records of the engine whose retention time is over, and expired
 * sessions; creates and drops partitions of evidence; rotates the task signing key when due.
 */
import { fixedRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { cutEvidence, extendEvidence } from '../../store/history/retention.ts';
import type { Sealer } from '../../store/integrity/sealer.ts';
import { createPruner } from '../../store/retention/prune.ts';
import { forgetSessions } from '../../store/rows/sign-in/sessions.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** A backlog, as after an upgrade, is deleted with three seconds of rest per second of work. */
const restFactor = 3;

export function housekeeping({ db, engine, environment, installation, clock }: SweepServices, sealer: Sealer): Sweep {
  const pruner = createPruner(db);
  return {
    name: 'housekeeping',
    every_seconds: 600,
    async run(now) {
      const sessions = await forgetSessions(db, now);
      const { keep_seconds } = environment.evidence;
      await extendEvidence(db, keep_seconds, now);
      const partitions = await cutEvidence(db, sealer, keep_seconds, now);
      const task_keys = await installation.maintainTaskKeys();
      const startedMs = clock.monotonicMs();
      const { deleted, more } = await pruner.pass(environment.retention.keep_seconds, now);
      const tookSeconds = (clock.monotonicMs() - startedMs) / 1000;
      const runs = await engine.collectFinished(fixedRetentionSeconds.engine);
      return {
        decided: task_keys + sessions + partitions + deleted + runs,
        ...(more && { next_in_seconds: restFactor * tookSeconds }),
      };
    },
  };
}
