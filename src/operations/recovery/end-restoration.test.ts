/** Tests when the end of a restoration is refused, and its effects. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { CorrelationId, NodeId } from '../../base/ids.ts';
import type { RestorationEndRequest } from '../../contract/supervision/restoration.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { replaceDifferences } from '../../store/backup/restoration-differences.ts';
import { markInspected, readNewestRestoration } from '../../store/backup/restorations.ts';
import { publishStoredThrough, readNewestGaps } from '../../store/supervision/ingest-gaps.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import { endRestoration } from './end-restoration.ts';

const restoration_id = 'rst_1';
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;
const caller = { actor, visibility: wholeFleet, correlation_id: 'c' as CorrelationId };
/** In seconds: the end of the restored rows, and the time of the restore. */
const [remembersUntil, began] = [-600, 0];

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p', { reuse: false });
  await fixture.markStored(fixture.at(remembersUntil));
  await fixture.db.query(
    `insert into restorations (restoration_id, sign, remembers_until, began_at) values ($1, 'backup_loaded', $2, $3)`,
    [restoration_id, fixture.at(remembersUntil), fixture.at(began)],
  );
});
afterEach(() => fixture.close());

const inspect = () => markInspected(fixture.db, restoration_id, fixture.at(10));

/** Ends the restoration 100 s after it began. */
async function end(request: Partial<RestorationEndRequest> = {}) {
  const elapsedMs = fixture.clock.nowMs() - fixture.start.getTime();
  await fixture.clock.advance(Math.max(0, 100_000 - elapsedMs));
  return endRestoration(fixture.services, { reason: 'compared', ...request }, caller);
}

const setChangedHands = (node_id: NodeId | undefined) =>
  fixture.db.transaction((tx) =>
    replaceDifferences(
      tx,
      restoration_id,
      {
        source: 'test',
        differences: [
          {
            ...{ kind: 'changed_hands', subject: node_id ?? '', driver: null, host: null },
            ...{ node_id: node_id ?? null, node_instance_id: null, seen: 'x' },
          },
        ],
      },
      fixture.at(10),
    ),
  );

const hold = (node_id: NodeId | undefined) =>
  fixture.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_of_' || $1, 'p', $1, 't', 'active', $2, 'c', $2)`,
    [node_id, fixture.at(-3600)],
  );

/** Ready nodes: one changed hands, one is held as recorded, and one is free. */
async function threeNodes() {
  const [changed, held, free] = await fixture.addNodes({ pool: 'p', count: 3, status: 'ready' });
  await hold(changed);
  await hold(held);
  await setChangedHands(changed);
  return [changed, held, free] as NodeId[];
}
const readStatuses = async (ids: NodeId[]) => (await fixture.readNodes(ids)).map(({ status }) => status);

test('is refused until every machine was inspected, or it is forced', async () => {
  await expect(end()).rejects.toMatchObject({ code: 'action_illegal' });
  expect(await readNewestRestoration(fixture.db)).toMatchObject({ ended_at: null });
  expect(await readNewestGaps(fixture.db, 1)).toEqual([]);
  await end({ force: true });
  expect(await readNewestRestoration(fixture.db)).toMatchObject({ ended_at: fixture.at(100) });
});

test('quarantines machines that changed hands and free ones', async () => {
  const nodes = await threeNodes();
  await inspect();
  expect(await end()).toEqual({ ended_at: fixture.at(100), quarantined: 2 });
  expect(await readStatuses(nodes)).toEqual(['quarantined', 'ready', 'quarantined']);
  const [row] = await fixture.readNodes(nodes);
  expect(row).toMatchObject({ status_since: fixture.at(100), verdict: { rule: 'quarantine', owner: 'operator' } });
});

test('releases the allocation of a machine that changed hands, and one that was being released', async () => {
  const [changed, held] = await threeNodes();
  const [releasing] = await fixture.addNodes({ pool: 'p', count: 1, status: 'cleaning', last_seen_at: fixture.at(-5) });
  await hold(releasing);
  await fixture.db.query(`update allocations set status = 'releasing' where node_id = $1`, [releasing]);
  for (const node of [changed, held, releasing])
    await fixture.db.query(
      `insert into operations (workflow_id, kind, revision, status, params, correlation_id, created_at, node_id)
       values ('op_of_' || $1, 'node-retire', 1, 'running', '{}', 'c', $2, $1)`,
      [node, fixture.at(-3600)],
    );
  await inspect();
  await end();
  const allocations = await fixture.db.query('select node_id, status from allocations order by node_id');
  expect(allocations).toEqual(
    [changed, held, releasing].map((node_id) => ({ node_id, status: node_id === held ? 'active' : 'released' })),
  );
  const operations = await fixture.db.query('select node_id, status from operations order by node_id');
  expect(operations).toEqual(
    [changed, held, releasing].map((node_id) => ({ node_id, status: node_id === held ? 'running' : 'cancelling' })),
  );
});

test('stops the planned work on a machine that changed hands, even if the node was quarantined before', async () => {
  const [parked] = await fixture.addNodes({ pool: 'p', count: 1, status: 'quarantined' });
  await setChangedHands(parked);
  await hold(parked);
  const { db } = fixture;
  const instance = `(select node_instance_id from nodes where node_id = $1)`;
  await db.query(
    `insert into residue (residue_id, driver, kind, resource, node_id, node_instance_id, why, reason, since, seen_at, status)
     values ('res_1', 'yard', 'machine', 'm', $1, ${instance}, 'force-release', 'x', $2, $2, 'open')`,
    [parked, fixture.at(-3600)],
  );
  await db.query(
    `insert into tasks (
       task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, created_at)
     values ('task_1', $1, ${instance}, 'release.clean', '{}', 'queued', 10, $2, $3)`,
    [parked, fixture.at(900), fixture.at(-60)],
  );
  await db.query(
    `insert into operations (workflow_id, kind, revision, status, params, correlation_id, created_at)
     values ('op_bulk', 'fleet-recover', 1, 'queued', '{}', 'c', $1)`,
    [fixture.at(-60)],
  );
  await inspect();
  await end();
  const read = async (table: string) => (await db.query<{ status: string }>(`select status from ${table}`))[0]?.status;
  expect(await Promise.all(['allocations', 'residue', 'tasks', 'operations', 'nodes'].map(read))).toEqual([
    ...['released', 'adopted', 'failed', 'cancelled', 'quarantined'],
  ]);
});

test('does not quarantine free machines with `trust_free`', async () => {
  const nodes = await threeNodes();
  await inspect();
  expect(await end({ trust_free: true })).toMatchObject({ quarantined: 1 });
  expect(await readStatuses(nodes)).toEqual(['quarantined', 'ready', 'ready']);
});

test('quarantines machines of an observe-only pool too', async () => {
  await fixture.declarePool('watched', { mode: 'observe' });
  const nodes = await fixture.addNodes({ pool: 'watched', count: 1, status: 'ready' });
  await inspect();
  expect(await end()).toMatchObject({ quarantined: 1 });
  expect(await readStatuses(nodes)).toEqual(['quarantined']);
});

test('moves each deadline once, by the whole time since the rows were kept up to date', async () => {
  const deadline_at = fixture.at(remembersUntil + 60);
  const [node] = await fixture.addNodes({ pool: 'p', count: 1, status: 'provisioning', deadline_at });
  await inspect();
  // Servers start after the restore, and again later, and find that no heartbeats were stored.
  for (const seconds of [5, 70]) {
    const replica = { replica_id: 'rep_test' as never, flushed_through: fixture.at(seconds) };
    const published = await publishStoredThrough(fixture.db, replica, 10, fixture.at(seconds));
    expect(published).toMatchObject({ gap: undefined, isIngestStopped: false });
  }
  await end({ trust_free: true, trust_unconfirmed: true });
  expect((await fixture.readNodes([node as NodeId]))[0]?.deadline_at).toEqual(fixture.at(100 + 60));
  const gaps = await readNewestGaps(fixture.db, 10);
  expect(gaps).toMatchObject([{ started_at: fixture.at(remembersUntil), ended_at: fixture.at(100), nodes_moved: 1 }]);
  // The next check finds nothing that is not covered.
  const replica = { replica_id: 'rep_test' as never, flushed_through: fixture.at(101) };
  expect((await publishStoredThrough(fixture.db, replica, 10, fixture.at(101))).gap).toBeUndefined();
});

test('is recorded once, with the differences at the time; a second end is refused', async () => {
  await threeNodes();
  await inspect();
  await end({ trust_free: true });
  await expect(end({ force: true })).rejects.toMatchObject({ code: 'action_illegal' });
  const facts = await fixture.db.query(
    `select data, actor, correlation_id from evidence where kind = 'restoration.ended'`,
  );
  expect(facts).toMatchObject([
    {
      data: {
        ...{ restoration_id, reason: 'compared', trust_free: true, force: false, quarantined: 1 },
        differences: { changed_hands: 1, maybe_used: 1 },
      },
      actor: { name: 'op' },
      correlation_id: 'c',
    },
  ]);
  expect(await readNewestRestoration(fixture.db)).toMatchObject({ ended_by: { name: 'op' }, end_reason: 'compared' });
});

test('is refused if no restoration is open', async () => {
  await fixture.db.query('delete from restorations');
  await expect(end({ force: true })).rejects.toMatchObject({ code: 'action_illegal' });
});
