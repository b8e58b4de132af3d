/**
 * Lateness of verdicts after their deadline, with all sweeps running as in a server and nodes
 * falling due at any time.
 */
import { moment, now, pause, secondsBetween, secondsLater } from '../../src/base/clock.ts';
import type { NodeId } from '../../src/base/ids.ts';
import { startTail } from '../../src/store/evidence/tail.ts';
import { sweepRegistry } from '../../src/sweeps/registry.ts';
import { createSweepRunner } from '../../src/sweeps/runner/runner.ts';
import type { Fleet } from './passes.ts';

const settleSeconds = 3;
const lookEveryMs = 100;
const patienceSeconds = 30;

/** Seconds after the deadline. */
export interface Late {
  /** Until the deciding pass began, as in the verdict itself. */
  judged: number[];
  /** Until a follower of the evidence received it, including the commit. */
  received: number[];
}

/** Sweeps continue after a failed run, and so does the measurement; each failure is reported. */
export interface Lateness extends Late {
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
  const chosen = fleet.inFlight.slice(0, nodes);
  const waiting = new Map<string, Date>();
  const late: Lateness = { judged: [], received: [], failures: [] };
  const failed = (what: string, error: unknown) =>
    late.failures.push(`${what}: ${error instanceof Error ? error.message : error}`);
  const from = secondsLater(now(clock), settleSeconds);
  await spreadDeadlines(fleet, chosen, from, overSeconds);
  const rows = await db.query<{ node_id: string; deadline_at: Date }>(
    'select node_id, deadline_at from nodes where node_id = any($1)',
    [chosen],
  );
  for (const row of rows) waiting.set(row.node_id, row.deadline_at);

  const runner = createSweepRunner({
    sweeps: sweepRegistry(fleet.services),
    clock,
    onError: failed,
  });
  const tail = await startTail({ db, clock, onError: (error) => failed('tail', error) });
  db.whenEvidence(() => tail.nudge());
  tail.subscribe((fact) => runner.observe(fact));
  tail.subscribe((fact) => {
    const deadline = fact.kind === 'node.failed' && fact.node_id ? waiting.get(fact.node_id) : undefined;
    if (!deadline || !fact.node_id) return;
    waiting.delete(fact.node_id);
    late.judged.push(secondsBetween(deadline, moment(Date.parse(fact.at))));
    late.received.push(secondsBetween(deadline, now(clock)));
  });
  runner.start();
  const giveUpAt = secondsLater(from, overSeconds + patienceSeconds);
  while (waiting.size > 0 && now(clock) < giveUpAt) await pause(clock, lookEveryMs);
  await runner.stop();
  await tail.stop();
  if (waiting.size > 0)
    late.failures.push(`${waiting.size} of ${nodes} nodes got no verdict within ${patienceSeconds} s`);
  return late;
}
