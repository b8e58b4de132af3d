/** Tests allowed, refused and paired transitions on a real database. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsBetween } from '../../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import {
  allocationStatuses,
  allocationStatusNames,
  nodeStatuses,
  nodeStatusNames,
} from '../../lifecycle/model/states.ts';
import {
  allocationEdges,
  type Cause,
  causes,
  findEdge,
  isVerdict,
  nodeEdges,
  pairedChanges,
  pairedWith,
} from '../../lifecycle/model/transitions.ts';
import { type Database, isUniqueViolation } from '../pg/database.ts';
import { type Fleet, readAllocationRow, readNodeRow, testFleet, testPool } from '../testing/fleet.ts';
import { moveAllocations } from './allocation-transition.ts';
import type { NodeMove } from './node-move.ts';
import { createNode, transition } from './node-transition.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore({ max_connections: 60 });
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

interface Fact {
  kind: string;
  layer: string;
  data: { from: string; to: string; by: string; set: Record<string, unknown> };
  node_instance_id: string | null;
  allocation_id: string | null;
}

const factsOf = (column: 'node_id' | 'allocation_id', id: string) =>
  db.query<Fact>(`select * from evidence where ${column} = $1 order by seq`, [id]);

const everyCause = Object.keys(causes) as Cause[];

describe('nodes', () => {
  const legal = nodeEdges
    .filter((edge) => edge.from !== 'new')
    .flatMap((edge) => edge.by.map((by) => ({ ...edge, by })));

  test('writes the row and its fact for every edge and cause', async () => {
    for (const { from, to, by } of legal) {
      const node = await fleet.node(from as (typeof nodeStatusNames)[number]);
      const before = (await factsOf('node_id', node.node_id)).length;
      const [outcome] = await fleet.move({ node_id: node.node_id, to, by, reason: 'test' });
      expect(outcome, `${from} → ${to} by ${by}`).toMatchObject({ moved: true, from });
      const after = await readNodeRow(db, node.node_id);
      expect(outcome?.moved && outcome.node).toEqual(after);
      expect(after.status).toBe(to);
      expect(after.deadline_at !== null).toBe(nodeStatuses[to].deadline !== null);
      // Every quarantine leaves a verdict, even if an operator caused it.
      expect(after.verdict?.rule ?? null).toBe(isVerdict(by) || to === 'quarantined' ? by : null);
      const needsOwner = ['degraded', 'offline', 'failed', 'quarantined'].includes(to);
      expect(after.verdict?.owner !== undefined, `owner after ${to} by ${by}`).toBe(
        needsOwner && after.verdict !== null,
      );
      if (after.deadline_at) {
        expect(secondsBetween(after.status_since, after.deadline_at)).toBe(after.budget_seconds);
        expect(after.budget_source).not.toBeNull();
      }
      const facts = await factsOf('node_id', node.node_id);
      expect(facts.length).toBe(before + 1);
      expect(facts.at(-1)).toMatchObject({
        kind: `node.${to}`,
        data: { from, to, by },
        node_instance_id: node.node_instance_id,
      });
    }
  });

  test('refuses every move without an edge and changes nothing', async () => {
    for (const from of nodeStatusNames) {
      const node = await fleet.node(from);
      const row = await readNodeRow(db, node.node_id);
      const before = (await factsOf('node_id', node.node_id)).length;
      const moves = nodeStatusNames.flatMap((to) =>
        everyCause
          .filter((by) => !findEdge(nodeEdges, from, to, by))
          .map((by): NodeMove => ({ node_id: node.node_id, to, by, reason: 'wrong' })),
      );
      const outcomes = await db.transaction((tx) => transition(tx, moves, fleet.now(), fleet.environment));
      for (const [index, outcome] of outcomes.entries()) {
        const because = moves[index]?.to === from ? 'already_there' : 'no_such_edge';
        expect(outcome).toMatchObject({ moved: false, because });
      }
      expect(await readNodeRow(db, node.node_id)).toEqual(row);
      expect((await factsOf('node_id', node.node_id)).length).toBe(before);
    }
  });

  test('throws if the cause may not create nodes', async () => {
    const fresh = { ...(await fleet.node()), node_id: 'node_wrong' as NodeId, name: 'wrong' };
    await expect(
      db.transaction((tx) =>
        createNode(tx, fresh, testPool, { by: 'proof', reason: 'no' }, fleet.now(), fleet.environment),
      ),
    ).rejects.toThrow('does not create nodes');
    expect(await db.query('select 1 from nodes where node_id = $1', ['node_wrong'])).toEqual([]);
  });

  test('refuses a move that a former instance requests', async () => {
    const node = await fleet.node('starting');
    const row = await readNodeRow(db, node.node_id);
    const before = await factsOf('node_id', node.node_id);
    const [outcome] = await fleet.move({
      node_id: node.node_id,
      node_instance_id: 'inst_former' as NodeInstanceId,
      to: 'ready',
      by: 'claim-ready',
      reason: 'test',
    });
    expect(outcome).toMatchObject({ moved: false, because: 'instance_fenced' });
    expect(await readNodeRow(db, node.node_id)).toEqual(row);
    expect(await factsOf('node_id', node.node_id)).toEqual(before);
  });

  test('refuses a move whose `from` does not include the status, and returns not_found for an unknown node', async () => {
    const node = await fleet.node('ready');
    const move = { to: 'cleaning', by: 'retire', reason: 'no' } as const;
    expect(await fleet.move({ ...move, node_id: node.node_id, from: ['failed'] })).toMatchObject([
      { moved: false, because: 'status_moved_on' },
    ]);
    expect(await fleet.move({ ...move, node_id: 'node_unknown' as NodeId })).toMatchObject([
      { moved: false, because: 'not_found', node: null },
    ]);
  });

  test('a rollback undoes the changes of rows and the facts', async () => {
    const node = await fleet.node('ready');
    const allocation = await fleet.allocation('active', node);
    const [row, allocationBefore] = [
      await readNodeRow(db, node.node_id),
      await readAllocationRow(db, allocation.allocation_id),
    ];
    const before = await factsOf('node_id', node.node_id);
    await expect(
      db.transaction(async (tx) => {
        const move: NodeMove = { node_id: node.node_id, to: 'offline', by: 'goodbye', reason: 'then' };
        expect(await transition(tx, [move], fleet.now(), fleet.environment)).toMatchObject([{ moved: true }]);
        const lost: NodeMove = { node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' };
        expect(await transition(tx, [lost], fleet.now(), fleet.environment)).toMatchObject([{ moved: true }]);
        throw new Error('roll back');
      }),
    ).rejects.toThrow('roll back');
    expect(await readNodeRow(db, node.node_id)).toEqual(row);
    expect(await readAllocationRow(db, allocation.allocation_id)).toEqual(allocationBefore);
    expect(await factsOf('node_id', node.node_id)).toEqual(before);
  });
});

describe('allocations', () => {
  const legal = allocationEdges
    .filter((edge) => edge.from !== 'new')
    .flatMap((edge) => edge.by.map((by) => ({ ...edge, by })));

  test('writes the row and its fact for every edge and cause', async () => {
    for (const { from, to, by } of legal) {
      const allocation = await fleet.allocation(from as (typeof allocationStatusNames)[number]);
      const before = (await factsOf('allocation_id', allocation.allocation_id)).length;
      const [outcome] = await fleet.moveAllocation({
        allocation_id: allocation.allocation_id,
        to,
        by,
        reason: 'test',
      });
      expect(outcome, `${from} → ${to} by ${by}`).toMatchObject({ moved: true, from });
      const after = await readAllocationRow(db, allocation.allocation_id);
      expect(outcome?.moved && outcome.allocation).toEqual(after);
      expect(after).toMatchObject({ status: to, reason: 'test' });
      expect(after.deadline_at !== null).toBe(allocationStatuses[to].deadline !== null);
      expect(after.verdict?.rule ?? null).toBe(isVerdict(by) ? by : null);
      expect(after.active_at !== null).toBe(to === 'active' || allocation.active_at !== null);
      expect(after.released_at !== null).toBe(to === 'released');
      const facts = await factsOf('allocation_id', allocation.allocation_id);
      expect(facts.length).toBe(before + 1);
      expect(facts.at(-1)).toMatchObject({ kind: `allocation.${to}`, data: { from, to, by } });
    }
  });

  test('refuses every move without an edge and changes nothing', async () => {
    for (const from of allocationStatusNames) {
      const { allocation_id } = await fleet.allocation(from);
      const row = await readAllocationRow(db, allocation_id);
      const before = await factsOf('allocation_id', allocation_id);
      const moves = allocationStatusNames.flatMap((to) =>
        everyCause
          .filter((by) => !findEdge(allocationEdges, from, to, by))
          .map((by) => ({ allocation_id, to, by, reason: 'wrong' })),
      );
      const outcomes = await db.transaction((tx) => moveAllocations(tx, moves, fleet.now(), fleet.environment));
      for (const outcome of outcomes) expect(outcome.moved).toBe(false);
      expect(await readAllocationRow(db, allocation_id)).toEqual(row);
      expect(await factsOf('allocation_id', allocation_id)).toEqual(before);
    }
  });

  test('refuses a second allocation on a node while the first holds it', async () => {
    for (const status of ['provisioning', 'active', 'releasing', 'release_failed'] as const) {
      const node = await fleet.node('ready');
      await fleet.allocation(status, node);
      const refused = await fleet.allocation('provisioning', node).catch((error: unknown) => error);
      expect(isUniqueViolation(refused, 'allocations_exclusive')).toBe(true);
    }
    const node = await fleet.node('ready');
    await fleet.allocation('released', node);
    expect((await fleet.allocation('active', node)).status).toBe('active');
  });
});

describe('paired changes', () => {
  const cases = pairedChanges.flatMap((pair) =>
    pair.node.from.map((from) => ({ from, to: pair.node.to, allocation: pair.allocation })),
  );

  test.for(cases)(
    'node $from → $to moves its allocation $allocation.from → $allocation.to',
    async ({ from, to, allocation }) => {
      const node = await fleet.node(from);
      const allocationRow = await fleet.allocation(allocation.from, node);
      if (allocation.by === 'rescue') {
        // A rescue applies to an allocation that failed at the same moment as the node.
        await db.query(
          `update allocations set
             status_since = (select status_since from nodes where node_id = $1)
           where allocation_id = $2`,
          [node.node_id, allocationRow.allocation_id],
        );
      }
      const by = nodeEdges.find((edge) => edge.from === from && edge.to === to)?.by[0];
      if (!by) throw new Error('the pair has no edge');
      const [outcome] = await fleet.move({ node_id: node.node_id, to, by, reason: 'test' });
      expect(outcome).toMatchObject({ moved: true });
      const after = await readAllocationRow(db, allocationRow.allocation_id);
      expect(after).toMatchObject({ status: allocation.to, reason: 'test' });
      const facts = await db.query<{ transaction_id: string; kind: string }>(
        `select xmin::text as transaction_id, kind
         from evidence
         where allocation_id = $1
           and kind in ($2, $3)
         order by seq desc
         limit 2`,
        [allocationRow.allocation_id, `node.${to}`, `allocation.${allocation.to}`],
      );
      expect(facts.map((fact) => fact.kind).sort()).toEqual([`allocation.${allocation.to}`, `node.${to}`].sort());
      expect(facts[0]?.transaction_id).toBe(facts[1]?.transaction_id);
      const sharesDeadline = ['provision', 'rescue'].includes(allocationStatuses[allocation.to].deadline ?? '');
      const movedNode = await readNodeRow(db, node.node_id);
      if (sharesDeadline && movedNode.deadline_at) expect(after.deadline_at).toEqual(movedNode.deadline_at);
    },
  );

  test('moves an allocation only if its status has a paired change', async () => {
    for (const status of allocationStatusNames.filter((each) => each !== 'requested')) {
      const node = await fleet.node('offline');
      const allocationRow = await fleet.allocation(status, node);
      await fleet.move({ node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' });
      const pair = pairedWith('offline', 'failed').find(({ from }) => from === status);
      expect((await readAllocationRow(db, allocationRow.allocation_id)).status).toBe(pair?.to ?? status);
    }
  });

  test('rescues the allocation that failed with the node, not an earlier one', async () => {
    const node = await fleet.node('ready');
    const former = await fleet.allocation('failed', node);
    const latest = await fleet.allocation('active', node);
    await fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
    await fleet.move({ node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' });
    await fleet.move({ node_id: node.node_id, to: 'starting', by: 'late-registration', reason: 'it is back' });
    expect((await readAllocationRow(db, former.allocation_id)).status).toBe('failed');
    expect((await readAllocationRow(db, latest.allocation_id)).status).toBe('provisioning');
  });

  test('facts of a node carry the id of its holder, and no allocation after the release', async () => {
    const node = await fleet.node('ready');
    const former = await fleet.allocation('failed', node);
    const holder = await fleet.allocation('active', node);
    const move = async (to: 'degraded' | 'ready') => {
      await fleet.move({ node_id: node.node_id, to, by: 'degraded', reason: 'test' });
      return (await factsOf('node_id', node.node_id)).at(-1)?.allocation_id;
    };
    expect(await move('degraded')).toBe(holder.allocation_id);
    const release = { allocation_id: holder.allocation_id, reason: 'enough' };
    await fleet.moveAllocation({ ...release, to: 'releasing', by: 'release' });
    await fleet.moveAllocation({ ...release, to: 'released', by: 'proof' });
    expect(await move('ready')).toBeNull();
    expect((await readAllocationRow(db, former.allocation_id)).status).toBe('failed');
  });
});
