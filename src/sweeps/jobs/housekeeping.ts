/**
 * `housekeeping`: creates and drops partitions of evidence, deletes expired sessions and old
 * records of the engine, samples the size of the database, and rotates the task signing key when
 * due.
 */
import { fixedRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { cutEvidence, extendEvidence } from '../../store/history/retention.ts';
import type { Sealer } from '../../store/integrity/sealer.ts';
import { sampleSize } from '../../store/retention/growth.ts';
import { deleteEndedSessions } from '../../store/rows/sign-in/sessions.ts';
import { handleEach } from '../runner/handle-each.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

type Job = [name: string, run: (now: Date) => Promise<number>];

export function housekeeping(
  { db, engine, environment, installation, restoration }: SweepServices,
  sealer: Sealer,
): Sweep {
  const jobsAfterRestore: Job[] = [
    ['sessions', (now) => deleteEndedSessions(db, now)],
    [
      'new evidence',
      async (now) => {
        await extendEvidence(db, environment.evidence.keep_seconds, now);
        return 0;
      },
    ],
    [
      'size of the database',
      async (now) => {
        await sampleSize(db, now);
        return 0;
      },
    ],
  ];
  const jobs: Job[] = [
    ...jobsAfterRestore,
    ['old evidence', (now) => cutEvidence(db, sealer, environment.evidence.keep_seconds, now)],
    ['task keys', () => installation.maintainTaskKeys()],
    ['engine', () => engine.collectFinished(fixedRetentionSeconds.engine)],
  ];
  return {
    name: 'housekeeping',
    runsAfterRestore: true,
    every_seconds: 600,
    async run(now) {
      let decided = 0;
      const failures = await handleEach(
        // After a restore, a person may still need what the others drop: evidence, records, keys.
        restoration.isObserving() ? jobsAfterRestore : jobs,
        ([name]) => name,
        async ([_, run]) => {
          decided += await run(now);
        },
      );
      if (failures.length > 0) throw new Error(`jobs that failed: ${failures.join('; ')}`);
      return { decided };
    },
  };
}
