/**
 * `prober`: probes machines that start or have fallen silent, ahead of the rules. A probe that
 * hangs delays nothing: rules read only stored answers, and a round does not wait for stragglers of
 * the previous one.
 */
import { now as present, secondsBetween } from '../../base/clock.ts';
import { describeAnswer } from '../../probe/http-probe.ts';
import { probeMany } from '../../probe/probe-many.ts';
import {
  nodesToProbe,
  type ProbedNode,
  type ProbeResult,
  probeTargetOf,
  saveProbeResults,
} from '../../store/supervision/probes.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;
/** Silent machines that are due first; the others follow when they are among the first. */
const maxSuspects = 2_000;
/** Starting machines wake the prober often; silent ones are not scanned more often for it. */
const silentEverySeconds = 0.5;
/** Answers within this time are written together. */
const batchMs = 50;

const targetOf = ({ node_id, node_instance_id, endpoint, settings }: ProbedNode) => ({
  node_id,
  node_instance_id,
  ...probeTargetOf(endpoint, settings),
});

export function prober({ db, clock, suspects }: SweepServices): Sweep {
  const asking = new Set<string>();
  let unwritten: ProbeResult[] = [];
  let lost: unknown;
  let silentAt: Date | undefined;

  const silentOnes = async (now: Date): Promise<string[]> => {
    const sinceLast = silentAt ? secondsBetween(silentAt, now) : silentEverySeconds;
    if (sinceLast >= 0 && sinceLast < silentEverySeconds) return [];
    silentAt = now;
    return (await suspects.at(now)).slice(0, maxSuspects).map(({ node_id }) => node_id);
  };

  const write = async () => {
    const answers = unwritten;
    unwritten = [];
    await saveProbeResults(db, answers, present(clock)).catch((error) => {
      lost = error;
    });
    for (const { node_instance_id } of answers) asking.delete(node_instance_id);
  };

  const gather = (answer: ProbeResult) => {
    if (unwritten.push(answer) === 1) clock.after(batchMs, () => void write());
  };

  return {
    name: 'prober',
    every_seconds: 1,
    woken_by: (kind) => kind === 'node.starting',
    async run(now) {
      const due = await nodesToProbe(db, await silentOnes(now), now, batch);
      const targets = due.filter(({ node_instance_id }) => !asking.has(node_instance_id)).map(targetOf);
      for (const { node_instance_id } of targets) asking.add(node_instance_id);
      void probeMany(targets, {
        clock,
        answered: ({ node_id, node_instance_id }, answer) =>
          gather({ node_id, node_instance_id, ok: answer.ok, detail: describeAnswer(answer) }),
      });
      if (lost) {
        const error = lost;
        lost = undefined;
        throw error;
      }
      return { decided: targets.length };
    },
  };
}
