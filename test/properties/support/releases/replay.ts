/**
 * Repeats the transitions of histories on the real store, which must accept and refuse the same
 * ones.
 */
import type { Database } from '../../../../src/store/pg/database.ts';
import type { AllocationRow } from '../../../../src/store/rows/allocations.ts';
import { verifyCounts } from '../../../../src/store/rows/counts.ts';
import type { NodeRow } from '../../../../src/store/rows/nodes.ts';
import { type Fleet, testFleet } from '../../../../src/store/testing/fleet.ts';
import type { AllocationMove } from '../../../../src/store/transitions/allocation-transition.ts';
import type { NodeMove } from '../../../../src/store/transitions/node-move.ts';
import type { History } from './history.ts';

async function replay(fleet: Fleet, { calls }: History): Promise<string[]> {
  const nodes = new Map<number, NodeRow>();
  const allocations = new Map<number, AllocationRow>();
  const nodeAt = async (key: number) => {
    const known = nodes.get(key) ?? (await fleet.node('provisioning'));
    nodes.set(key, known);
    return known;
  };
  const allocationAt = async (key: number) => {
    const known = allocations.get(key) ?? (await fleet.allocation('requested'));
    allocations.set(key, known);
    return known;
  };
  const differing: string[] = [];
  for (const { entity, key, to, by, moved, node, after } of calls) {
    let outcome: { moved: boolean } | undefined;
    if (entity === 'node') {
      const { node_id } = await nodeAt(key);
      [outcome] = await fleet.move({ node_id, to, by, reason: 'a history' } as NodeMove);
    } else {
      const { allocation_id } = await allocationAt(key);
      const set = node === undefined ? {} : { node_id: (await nodeAt(node)).node_id };
      [outcome] = await fleet.moveAllocation({ allocation_id, to, by, reason: 'a history', set } as AllocationMove);
    }
    if (outcome?.moved !== moved)
      differing.push(`${entity} → ${to} by ${by}: the store says ${JSON.stringify(outcome)}, the model ${moved}`);
    const statuses = await statusesOf(fleet.db, nodes, allocations);
    // The model knows a node before the store does.
    const expected = after
      .split(' ')
      .filter((each) => statuses.some((one) => one.split(':')[0] === each.split(':')[0]));
    if (statuses.join(' ') !== expected.join(' '))
      differing.push(`after ${to} by ${by}: ${statuses.join(' ')}, the model ${after}`);
    if (differing.length > 0) break;
  }
  return differing;
}

async function statusesOf(
  db: Database,
  nodes: Map<number, NodeRow>,
  allocations: Map<number, AllocationRow>,
): Promise<string[]> {
  const [ns, as] = [[...nodes.keys()].sort((a, b) => a - b), [...allocations.keys()].sort((a, b) => a - b)];
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
    ...ns.map((key) => `n${key}:${statusOf.get(nodes.get(key)?.node_id ?? '')}`),
    ...as.map((key) => `a${key}:${statusOf.get(allocations.get(key)?.allocation_id ?? '')}`),
  ];
}

/** Returns differences, and counts that are negative or differ from the rows. */
export async function replayed(db: Database, histories: readonly History[]): Promise<string[]> {
  const fleet = await testFleet(db);
  const differing: string[] = [];
  for (const history of histories) differing.push(...(await replay(fleet, history)));
  const negative = await db.query<{ of: string; status: string; sum: number }>(
    `select of, status, sum(change)::int as sum
     from counts
     group by of, pool, status
     having sum(change) < 0`,
  );
  differing.push(...negative.map(({ of, status, sum }) => `${sum} ${of} are counted as ${status}`));
  differing.push(...(await verifyCounts(db)).map((wrong) => JSON.stringify(wrong)));
  return differing;
}
