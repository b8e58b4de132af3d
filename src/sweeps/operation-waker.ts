/** Wakes operations when something happened that they may be waiting for, so that none of them polls for it. */
import type { WorkflowId } from '../base/ids.ts';
import type { Evidence } from '../contract/evidence.ts';
import type { Engine } from '../engine/engine.ts';
import type { Queryable } from '../store/database.ts';
import { runningHere } from '../store/executions.ts';

/** An operation's own words wake nobody; what nodes, rules, people and tasks did may. */
const mayMatter = (fact: Evidence) =>
  !fact.kind.startsWith('operation.progress') && !fact.kind.startsWith('step.') && !fact.kind.startsWith('driver.');

const makesRoom = ['node.ready', 'node.retired', 'pool.declared'];
/** One that waited in the queue and waits no more lets the next one come forward. */
const leavesQueue = ['allocation.releasing', 'allocation.failed'];

const mayServeWaiting = (fact: Evidence) =>
  makesRoom.includes(fact.kind) || (leavesQueue.includes(fact.kind) && !fact.node_id);

export function operationWaker(
  db: Queryable,
  engine: Engine,
  replica_id: string,
  onError: (error: unknown) => void,
): (fact: Evidence) => void {
  const waking = new Set<string>();
  const wake = async (key: string, find: () => Promise<{ workflow_id: WorkflowId; attempt: number }[]>) => {
    // Facts that come together need one wake; one that comes while we look is caught by looking after it.
    if (waking.has(key)) return;
    waking.add(key);
    try {
      const found = find();
      waking.delete(key);
      for (const { workflow_id, attempt } of await found) await engine.wake(workflow_id, attempt);
    } catch (error) {
      waking.delete(key);
      onError(error);
    }
  };
  return (fact) => {
    if (!mayMatter(fact)) return;
    if (mayServeWaiting(fact)) void wake('waiting', () => runningHere(db, replica_id, { waiting: true }));
    if (fact.node_id || fact.allocation_id) {
      const subject = { node_id: fact.node_id, allocation_id: fact.allocation_id };
      void wake(`${fact.node_id} ${fact.allocation_id}`, () => runningHere(db, replica_id, subject));
    }
  };
}
