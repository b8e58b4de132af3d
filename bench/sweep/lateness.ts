/**
 * Measures how late after their deadline nodes get a verdict. All sweeps run as in a server, and
 * the deadlines are spread over some seconds.
 */
import { moment, now, pause, secondsBetween, secondsLater } from '../../src/base/clock.ts';
import type { NodeId } from '../../src/base/ids.ts';
import { startTail } from '../../src/store/evidence/tail.ts';
import { sweepRegistry } from '../../src/sweeps/registry.ts';
import { createSweepRunner } from '../../src/sweeps/runner/runner.ts';
import type { Fleet } from './passes.ts';

const settleSeconds = 3;
const pollMs = 100;
const verdictTimeoutSeconds = 30;

/** Seconds after the deadline. */
export interface Lateness {
  /** Until the pass that decided began, which is the time in the verdict. */
  judged: number[];
  /** Until a follower of the evidence received the verdict, after the commit. */
  received: number[];
  /** Failed runs of sweeps. Sweeps continue after a failed run, and so does the measurement. */
  failures: string[];
}

async function spreadDeadlines(fleet: Fleet, nodes: NodeId[], from: Date, seconds: number): Promise<void> {
  await fleet.services.db.query(
    `update nodes set deadline_at = $2::timestamptz + interval '1 second' * $3::double precision * random() where node_id = any($1)`,
    [nodes, from, seconds],
  );
}

export async function measureLateness(
  fleet: Fleet,
  { nodes, overSeconds }: { nodes: number; overSeconds: number },
): Promise<Lateness> {
  const { db, clock } = fleet.services;
  const chosenNodes = fleet.inFlight.slice(0, nodes);
  const deadlines = new Map<string, Date>();
  const lateness: Lateness = { judged: [], received: [], failures: [] };
  const recordFailure = (what: string, error: unknown) =>
    lateness.failures.push(`${what}: ${error instanceof Error ? error.message : error}`);
  const from = secondsLater(now(clock), settleSeconds);
  await spreadDeadlines(fleet, chosenNodes, from, overSeconds);
  const rows = await db.query<{ node_id: string; deadline_at: Date }>(
    'select node_id, deadline_at from nodes where node_id = any($1)',
    [chosenNodes],
  );
  for (const row of rows) deadlines.set(row.node_id, row.deadline_at);

  const runner = createSweepRunner({
    sweeps: sweepRegistry(fleet.services),
    clock,
    onError: recordFailure,
  });
  const tail = await startTail({ db, clock, onError: (error) => recordFailure('tail', error) });
  db.whenEvidence(() => tail.nudge());
  tail.subscribe((fact) => runner.observe(fact));
  tail.subscribe((fact) => {
    const deadline = fact.kind === 'node.failed' && fact.node_id ? deadlines.get(fact.node_id) : undefined;
    if (!deadline || !fact.node_id) return;
    deadlines.delete(fact.node_id);
    lateness.judged.push(secondsBetween(deadline, moment(Date.parse(fact.at))));
    lateness.received.push(secondsBetween(deadline, now(clock)));
  });
  runner.start();
  const giveUpAt = secondsLater(from, overSeconds + verdictTimeoutSeconds);
  while (deadlines.size > 0 && now(clock) < giveUpAt) await pause(clock, pollMs);
  await runner.stop();
  await tail.stop();
  if (deadlines.size > 0)
    lateness.failures.push(`${deadlines.size} of ${nodes} nodes got no verdict within ${verdictTimeoutSeconds} s`);
  return lateness;
}
