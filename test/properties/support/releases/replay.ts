/** Repeats the transitions of histories on the real store and finds different outcomes. */
import type { Database } from '../../../../src/store/pg/database.ts';
import type { AllocationRow } from '../../../../src/store/rows/allocations.ts';
import { verifyCounts } from '../../../../src/store/rows/counts.ts';
import type { NodeRow } from '../../../../src/store/rows/nodes.ts';
import { type Fleet, testFleet } from '../../../../src/store/testing/fleet.ts';
import type { AllocationMove } from '../../../../src/store/transitions/allocation-transition.ts';
import type { NodeMove } from '../../../../src/store/transitions/node-move.ts';
import type { History } from './history.ts';

async function findDifferences(fleet: Fleet, { calls }: History): Promise<string[]> {
  const nodes = new Map<number, NodeRow>();
  const allocations = new Map<number, AllocationRow>();
  const nodeWithKey = async (key: number) => {
    const row = nodes.get(key) ?? (await fleet.node('provisioning'));
    nodes.set(key, row);
    return row;
  };
  const allocationWithKey = async (key: number) => {
    const row = allocations.get(key) ?? (await fleet.allocation('requested'));
    allocations.set(key, row);
    return row;
  };
  const differences: string[] = [];
  for (const { entity, key, to, by, moved, node, statusesAfter } of calls) {
    let outcome: { moved: boolean } | undefined;
    if (entity === 'node') {
      const { node_id } = await nodeWithKey(key);
      [outcome] = await fleet.move({ node_id, to, by, reason: 'for a test' } as NodeMove);
    } else {
      const { allocation_id } = await allocationWithKey(key);
      const set = node === undefined ? {} : { node_id: (await nodeWithKey(node)).node_id };
      [outcome] = await fleet.moveAllocation({ allocation_id, to, by, reason: 'for a test', set } as AllocationMove);
    }
    if (outcome?.moved !== moved)
      differences.push(
        `${entity} → ${to} by ${by}: ${JSON.stringify(outcome)} in the store, moved ${moved} in the model`,
      );
    const statuses = await readStatuses(fleet.db, nodes, allocations);
    // The replay creates a row at its first transition, later than the model does.
    const expected = statusesAfter
      .split(' ')
      .filter((modelStatus) => statuses.some((status) => status.split(':')[0] === modelStatus.split(':')[0]));
    if (statuses.join(' ') !== expected.join(' '))
      differences.push(`after ${to} by ${by}: ${statuses.join(' ')} in the store, ${statusesAfter} in the model`);
    if (differences.length > 0) break;
  }
  return differences;
}

async function readStatuses(
  db: Database,
  nodes: Map<number, NodeRow>,
  allocations: Map<number, AllocationRow>,
): Promise<string[]> {
  const nodeKeys = [...nodes.keys()].sort((a, b) => a - b);
  const allocationKeys = [...allocations.keys()].sort((a, b) => a - b);
  const rows = await db.query<{ id: string; status: string }>(
    `select node_id as id, status from nodes where node_id = any($1)
     union all
     select allocation_id, status from allocations where allocation_id = any($2)`,
    [
      [...nodes.values()].map(({ node_id }) => node_id),
      [...allocations.values()].map(({ allocation_id }) => allocation_id),
    ],
  );
  const statusOf = new Map(rows.map(({ id, status }) => [id, status]));
  return [
    ...nodeKeys.map((key) => `n${key}:${statusOf.get(nodes.get(key)?.node_id ?? '')}`),
    ...allocationKeys.map((key) => `a${key}:${statusOf.get(allocations.get(key)?.allocation_id ?? '')}`),
  ];
}

/** Returns different outcomes, and counts that are negative or differ from the rows. */
export async function findReplayDifferences(db: Database, histories: readonly History[]): Promise<string[]> {
  const fleet = await testFleet(db);
  const differences: string[] = [];
  for (const history of histories) differences.push(...(await findDifferences(fleet, history)));
  const negativeCounts = await db.query<{ of: string; status: string; sum: number }>(
    `select of, status, sum(change)::int as sum
     from counts
     group by of, pool, status
     having sum(change) < 0`,
  );
  differences.push(...negativeCounts.map(({ of, status, sum }) => `the count of ${of} in status ${status} is ${sum}`));
  differences.push(...(await verifyCounts(db)).map((wrongCount) => JSON.stringify(wrongCount)));
  return differences;
}
