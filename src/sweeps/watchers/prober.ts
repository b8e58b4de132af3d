/**
 * `prober`: probes machines that start or have fallen silent, before rules judge them. A probe that
 * hangs delays nothing: rules read only stored answers, and a run does not wait for the unanswered
 * probes of earlier runs.
 */
import { now as present, secondsBetween } from '../../base/clock.ts';
import { describeAnswer } from '../../probe/http-probe.ts';
import { probeMany } from '../../probe/probe-many.ts';
import {
  findNodesToProbe,
  type ProbedNode,
  type ProbeResult,
  probeTargetOf,
  saveProbeResults,
} from '../../store/supervision/probes.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;
/** Only the silent machines that are due first are probed; the others move up. */
const maxSuspects = 2_000;
/** Starting machines wake the prober often, but silent ones are scanned no more often than this. */
const silentScanSeconds = 0.5;
/** Answers within this time are written together. */
const batchMs = 50;

const targetOf = ({ node_id, node_instance_id, endpoint, settings }: ProbedNode) => ({
  node_id,
  node_instance_id,
  ...probeTargetOf(endpoint, settings),
});

export function prober({ db, clock, suspects }: SweepServices): Sweep {
  /** Instances with a probe whose answer is not stored yet. */
  const pending = new Set<string>();
  let unwritten: ProbeResult[] = [];
  let writeError: unknown;
  let silentScanAt: Date | undefined;

  const listSilentNodes = async (now: Date): Promise<string[]> => {
    const sinceLast = silentScanAt ? secondsBetween(silentScanAt, now) : silentScanSeconds;
    if (sinceLast >= 0 && sinceLast < silentScanSeconds) return [];
    silentScanAt = now;
    return (await suspects.list(now)).slice(0, maxSuspects).map(({ node_id }) => node_id);
  };

  const write = async () => {
    const answers = unwritten;
    unwritten = [];
    await saveProbeResults(db, answers, present(clock)).catch((error) => {
      writeError = error;
    });
    for (const { node_instance_id } of answers) pending.delete(node_instance_id);
  };

  const addAnswer = (answer: ProbeResult) => {
    if (unwritten.push(answer) === 1) clock.after(batchMs, () => void write());
  };

  return {
    name: 'prober',
    every_seconds: 1,
    isWokenBy: (kind) => kind === 'node.starting',
    async run(now) {
      const due = await findNodesToProbe(db, await listSilentNodes(now), now, batch);
      const targets = due.filter(({ node_instance_id }) => !pending.has(node_instance_id)).map(targetOf);
      for (const { node_instance_id } of targets) pending.add(node_instance_id);
      void probeMany(targets, {
        clock,
        onAnswer: ({ node_id, node_instance_id }, answer) =>
          addAnswer({ node_id, node_instance_id, ok: answer.ok, detail: describeAnswer(answer) }),
      });
      if (writeError) {
        const error = writeError;
        writeError = undefined;
        throw error;
      }
      return { decided: targets.length };
    },
  };
}
