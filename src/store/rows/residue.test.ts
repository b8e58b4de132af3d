/**
 * Open residue keeps a node from being free until the residue is settled. Each step has evidence.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { countFree } from './free-nodes.ts';
import { readNode } from './nodes.ts';
import { countOpenResidue, leaveResidue, listResidue, recordInspection, residueRow, settleResidue } from './residue.ts';

let fixture: RuleFixture;
let node_id: NodeId;
const actor = { kind: 'token', id: 'tok_1', name: 'ada' };

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  [node_id] = (await fixture.addNodes({ pool: 'p', count: 1 })) as [NodeId];
});
afterEach(() => fixture.close());

const leave = (columns: { resource?: string; seen?: string } = {}) =>
  fixture.db.transaction((tx) =>
    leaveResidue(
      tx,
      [
        {
          ...{ driver: 'yard', pool: 'p', host: null, kind: 'vm', resource: 'vm/1', node_id, reason: 'forced' },
          ...{ node_instance_id: 'inst_p_1' as NodeInstanceId, allocation_id: null, correlation_id: null },
          ...{ workflow_id: null, forced_by: actor, seen: 'still there', cost_per_hour: 3 },
          ...columns,
        },
      ],
      { layer: 'operator', actor },
      fixture.clock,
    ),
  );
const settle = (residue_id: string, status: 'gone' | 'adopted') =>
  fixture.db.transaction((tx) =>
    settleResidue(tx, { residue_id }, { status, reason: 'because' }, { layer: 'operator', actor }, fixture.at(60)),
  );
const facts = () =>
  fixture.db.query<{ kind: string; actor: { name: string } | null }>(
    `select kind, actor from evidence where kind like 'residue.%' and node_id = $1 order by xid, seq`,
    [node_id],
  );

test('a node with open residue is not free until the residue is gone', async () => {
  expect(await readNode(fixture.db, node_id, wholeFleet)).toMatchObject({ occupancy: 'free' });
  const [entry] = await leave();
  expect(await readNode(fixture.db, node_id, wholeFleet)).toMatchObject({ occupancy: 'cleanup', allocation_id: null });
  expect(await countFree(fixture.db, 'p', 1)).toBe(0);
  expect(await settle(entry?.residue_id ?? '', 'gone')).toHaveLength(1);
  expect(await readNode(fixture.db, node_id, wholeFleet)).toMatchObject({ occupancy: 'free' });
  expect(await countFree(fixture.db, 'p', 1)).toBe(1);
  expect(await facts()).toEqual([
    { kind: 'residue.left', actor },
    { kind: 'residue.gone', actor },
  ]);
});

test('adopting residue proves nothing: the node is free only as another instance', async () => {
  const [entry] = await leave();
  expect(await settle(entry?.residue_id ?? '', 'adopted')).toHaveLength(1);
  expect(await readNode(fixture.db, node_id, wholeFleet)).toMatchObject({ occupancy: 'cleanup' });
  expect(await countFree(fixture.db, 'p', 1)).toBe(0);
  await fixture.db.query('update residue set node_instance_id = $1', ['inst_former']);
  expect(await readNode(fixture.db, node_id, wholeFleet)).toMatchObject({ occupancy: 'free' });
});

test('updates the open entry of a resource, and adds a new entry after that one is settled', async () => {
  const [first] = await leave();
  const [updated] = await leave({ seen: 'there again' });
  expect(updated).toMatchObject({ residue_id: first?.residue_id, seen: 'there again' });
  await settle(first?.residue_id ?? '', 'adopted');
  const [later] = await leave();
  expect(later?.residue_id).not.toBe(first?.residue_id);
});

test('does not settle an entry a second time', async () => {
  const [entry] = await leave();
  await settle(entry?.residue_id ?? '', 'gone');
  expect(await settle(entry?.residue_id ?? '', 'adopted')).toEqual([]);
  expect(await residueRow(fixture.db, entry?.residue_id ?? '')).toMatchObject({
    status: 'gone',
    settled_reason: 'because',
  });
});

test('records a fact for an inspection if its result changed or a person requested it', async () => {
  const [entry] = await leave();
  const inspect = (seen: string, by?: typeof actor) =>
    fixture.db.transaction((tx) =>
      recordInspection(tx, entry?.residue_id ?? '', seen, { layer: 'rule', ...(by && { actor: by }) }, fixture.at(30)),
    );
  await inspect('still there');
  await inspect('half gone');
  await inspect('half gone');
  await inspect('half gone', actor);
  expect((await facts()).map(({ kind }) => kind)).toEqual(['residue.left', 'residue.verified', 'residue.verified']);
  expect(await residueRow(fixture.db, entry?.residue_id ?? '')).toMatchObject({
    seen: 'half gone',
    verified_at: fixture.at(30),
  });
});

test('pages through entries by status and pool, newest first, and counts them by driver', async () => {
  for (const resource of ['vm/1', 'vm/2', 'vm/3']) await leave({ resource });
  const first = await listResidue(fixture.db, { limit: 2, status: 'open', pool: 'p' });
  expect(first.items).toHaveLength(2);
  const second = await listResidue(fixture.db, { limit: 2, after: first.next_cursor ?? '' });
  expect([...first.items, ...second.items].map(({ resource }) => resource).sort()).toEqual(['vm/1', 'vm/2', 'vm/3']);
  expect(second.next_cursor).toBeNull();
  expect((await listResidue(fixture.db, { limit: 2, pool: 'other' })).items).toEqual([]);
  expect(await countOpenResidue(fixture.db)).toEqual([{ driver: 'yard', open: 3, oldest_since: fixture.start }]);
});

test('a node on which a served allocation failed is not free until a later proof', async () => {
  const { db } = fixture;
  await db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, name, status, status_since, active_at, correlation_id, created_at)
     values ('alloc_1', 'p', $1, 'acme', 'job', 'failed', $2, $2, 'c', $2)`,
    [node_id, fixture.at(10)],
  );
  const isFree = async () => (await readNode(db, node_id, wholeFleet))?.occupancy === 'free';
  const prove = (at: Date, kind: Fact['kind'] = 'proof.clean') =>
    db.transaction((tx) => recordEvidence(tx, [{ at, layer: 'node', kind, summary: 'the machine is clean', node_id }]));
  await prove(fixture.at(9));
  await prove(fixture.at(11), 'node.observed');
  expect(await isFree(), 'an earlier proof, and a fact that is no proof').toBe(false);
  await prove(fixture.at(10));
  expect(await isFree()).toBe(true);
});
