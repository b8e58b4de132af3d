/**
 * `housekeeping`: forgets idempotency keys whose day is over, findings that were closed and samples that were taken long ago, sessions that expired, what the engine keeps of operations
 * that ended long ago, and evidence whose time is over; rotates the key that signs tasks when it is due; and makes room for the evidence to come.
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

/** Long enough to look into what went wrong; the evidence of an operation stays beyond it. */
const engineKeepsSeconds = 7 * 24 * 3600;
const findingsKeptSeconds = 30 * 24 * 3600;
/** What a step took longer ago says little about the next one. */
const samplesKeptSeconds = 30 * 24 * 3600;

export const housekeeping = ({ db, engine, environment, installation }: SweepServices, sealer: Sealer): Sweep => ({
  name: 'housekeeping',
  every_seconds: 600,
  async run(now) {
    const keys = await forgetOldKeys(db, now);
    const findings = await forgetFindings(db, secondsLater(now, -findingsKeptSeconds));
    const samples = await forgetStepSamples(db, secondsLater(now, -samplesKeptSeconds));
    const sessions = await forgetSessions(db, now);
    const { keep_seconds } = environment.evidence;
    await extendEvidence(db, keep_seconds, now);
    const pieces = await cutEvidence(db, sealer, keep_seconds, now);
    const task_keys = await installation.maintainTaskKeys();
    return {
      decided:
        task_keys + keys + findings + samples + sessions + pieces + (await engine.collectFinished(engineKeepsSeconds)),
    };
  },
});
