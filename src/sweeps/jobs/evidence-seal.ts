/** `evidence-seal`: hashes settled evidence and signs checkpoints over it. Decides nothing. */
import { type Clock, now as currentTime, secondsLater } from '../../base/clock.ts';
import type { Sealer } from '../../store/integrity/sealer.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** How long evidence accumulates before a checkpoint is signed. */
const accumulateSeconds = 1;
/** A backlog is sealed with three seconds of rest per second of work. */
const restFactor = 3;

async function measure<T>(clock: Clock, work: () => Promise<T>): Promise<{ result: T; seconds: number }> {
  const startedMs = clock.monotonicMs();
  const result = await work();
  return { result, seconds: (clock.monotonicMs() - startedMs) / 1000 };
}

export const evidenceSeal = ({ clock }: Pick<SweepServices, 'clock'>, sealer: Sealer): Sweep => ({
  name: 'evidence-seal',
  runsAfterRestore: true,
  every_seconds: 10,
  dueTimeFrom: () => secondsLater(currentTime(clock), accumulateSeconds),
  async run(now) {
    const { result, seconds } = await measure(clock, () => sealer.sealBatch(now));
    return { decided: 0, ...(result.more && { next_in_seconds: seconds * restFactor }) };
  },
});
