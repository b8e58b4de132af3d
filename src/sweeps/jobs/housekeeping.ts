/**
 * `housekeeping`: deletes expired idempotency keys, sessions, closed findings, old samples, old
 * engine records and expired evidence; rotates the task signing key when due; creates partitions
 * for coming evidence.
 */
import { secondsLater } from '../../base/clock.ts';
import { cutEvidence, extendEvidence } from '../../store/history/retention.ts';
import type { Sealer } from '../../store/integrity/sealer.ts';
import { forgetStepSamples } from '../../store/operations/step-samples.ts';
import { forgetOldKeys } from '../../store/pg/idempotency.ts';
import { forgetFindings } from '../../store/rows/findings.ts';
import { forgetSessions } from '../../store/rows/sign-in/sessions.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Long enough to investigate a failure. The operation's evidence is kept longer. */
const engineRetentionSeconds = 7 * 24 * 3600;
const findingRetentionSeconds = 30 * 24 * 3600;
/** Older step durations say little about the next one. */
const sampleRetentionSeconds = 30 * 24 * 3600;

export const housekeeping = ({ db, engine, environment, installation }: SweepServices, sealer: Sealer): Sweep => ({
  name: 'housekeeping',
  every_seconds: 600,
  async run(now) {
    const keys = await forgetOldKeys(db, now);
    const findings = await forgetFindings(db, secondsLater(now, -findingRetentionSeconds));
    const samples = await forgetStepSamples(db, secondsLater(now, -sampleRetentionSeconds));
    const sessions = await forgetSessions(db, now);
    const { keep_seconds } = environment.evidence;
    await extendEvidence(db, keep_seconds, now);
    const cutPartitions = await cutEvidence(db, sealer, keep_seconds, now);
    const task_keys = await installation.maintainTaskKeys();
    return {
      decided:
        task_keys +
        keys +
        findings +
        samples +
        sessions +
        cutPartitions +
        (await engine.collectFinished(engineRetentionSeconds)),
    };
  },
});
