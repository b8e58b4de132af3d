/**
 * `prober`: asks machines that start, or that have fallen silent, whether they live, ahead of the rules. A probe that hangs
 * delays nobody: rules read only what is written here, and a round does not wait for the stragglers of the one before.
 */
import { now as present, secondsBetween } from '../../base/clock.ts';
import { saidBy } from '../../probe/http-probe.ts';
import { probeMany } from '../../probe/probe-many.ts';
import {
  type KeptAnswer,
  keepAnswers,
  nodesToProbe,
  type ProbedNode,
  probeTargetOf,
} from '../../store/supervision/probes.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;
/** Of the silent, those whose time is up first: whoever is not asked now is, when it is one of them. */
const mostSuspects = 2_000;
/** Machines that start wake the prober as often as they come; the silent are looked at no oftener for it. */
const silentEverySeconds = 0.5;
/** Answers that come together are written together. */
const gatherMs = 50;

const targetOf = ({ node_id, node_instance_id, endpoint, settings }: ProbedNode) => ({
  node_id,
  node_instance_id,
  ...probeTargetOf(endpoint, settings),
});

export function prober({ db, clock, suspects }: SweepServices): Sweep {
  const asking = new Set<string>();
  let gathered: KeptAnswer[] = [];
  let lost: unknown;
  let silentAt: Date | undefined;

  const silentOnes = async (now: Date): Promise<string[]> => {
    const sinceLast = silentAt ? secondsBetween(silentAt, now) : silentEverySeconds;
    if (sinceLast >= 0 && sinceLast < silentEverySeconds) return [];
    silentAt = now;
    return (await suspects.at(now)).slice(0, mostSuspects).map(({ node_id }) => node_id);
  };

  const write = async () => {
    const answers = gathered;
    gathered = [];
    await keepAnswers(db, answers, present(clock)).catch((error) => {
      lost = error;
    });
    for (const { node_instance_id } of answers) asking.delete(node_instance_id);
  };

  const gather = (answer: KeptAnswer) => {
    if (gathered.push(answer) === 1) clock.after(gatherMs, () => void write());
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
          gather({ node_id, node_instance_id, ok: answer.ok, detail: saidBy(answer) }),
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
