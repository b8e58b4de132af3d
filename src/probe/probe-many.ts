/**
 * Runs many probes with limited concurrency. A target that hangs holds one slot until its timeout.
 */
import { type ProbeAnswer, type ProbeDeps, type ProbeTarget, probe } from './http-probe.ts';

export interface ProbeManyDeps<Target extends ProbeTarget> extends ProbeDeps {
  max_concurrent?: number;
  /**
   * Called with each answer as soon as it arrives, without waiting for slower targets. Must not
   * throw.
   */
  onAnswer?: (target: Target, answer: ProbeAnswer) => void;
}

const default_max_concurrent = 64;

/** Returns the answers in the order of the targets. */
export async function probeMany<Target extends ProbeTarget>(
  targets: readonly Target[],
  { max_concurrent = default_max_concurrent, onAnswer, ...deps }: ProbeManyDeps<Target>,
): Promise<ProbeAnswer[]> {
  const answers: ProbeAnswer[] = [];
  const waiting = targets.entries();
  const work = async () => {
    for (const [place, target] of waiting) {
      const answer = await probeSafely(target, deps);
      answers[place] = answer;
      onAnswer?.(target, answer);
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(1, max_concurrent), targets.length) }, work));
  return answers;
}

/** Returns an unexpected error as an answer, so that the other targets still get theirs. */
async function probeSafely(target: ProbeTarget, deps: ProbeDeps): Promise<ProbeAnswer> {
  try {
    return await probe(target, deps);
  } catch (error) {
    return { ok: false, because: 'unreachable', detail: `the probe itself failed: ${error}` };
  }
}
