/** Tests which machines are listed as different from the restored rows, and how they are listed. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import { firstIdAt, type NodeId, type NodeInstanceId, newTaskId, type TaskId } from '../../base/ids.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { RestoredDifferenceKind } from '../../lifecycle/findings/restored-differences.ts';
import { answerTask, leaseNext, queueTask } from '../agents/tasks.ts';
import type { Database } from '../pg/database.ts';
import { declarePool } from '../rows/pools.ts';
import type { ListedResource } from '../supervision/orphans.ts';
import { type PlacedNodes, placeNodes, storeHeartbeats } from '../testing/placed-nodes.ts';
import {
  compareReleases,
  compareResources,
  countDifferences,
  type Difference,
  findAgentsToAsk,
  isComparing,
  listDifferences,
  lockContestedNodes,
  replaceDifferences,
} from './restoration-differences.ts';
import { type RestorationRow, readNewestRestoration } from './restorations.ts';

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);
/** The last server before the restore stored heartbeats until here. */
const remembersUntil = at(-600);
const restoration_id = 'rst_1';
const heartbeat = { interval_seconds: 10, stale_after_seconds: 30 };

let store: TestStore;
let db: Database;
let placed: number;
/** Each comparison is later than the last one. */
let compared: number;
let clock: ReturnType<typeof virtualClock>;
beforeEach(async () => {
  store = await testStore();
  db = store.db;
  placed = 0;
  compared = 1_000;
  clock = virtualClock();
  await db.transaction((tx) => declarePool(tx, 'p', { driver: 'yard' }, start));
  await db.transaction((tx) => declarePool(tx, 'reused', { driver: 'yard', reuse: true }, start));
  await db.query(`insert into restorations (restoration_id, sign, began_at) values ($1, 'backup_loaded', $2)`, [
    restoration_id,
    start,
  ]);
});
afterEach(() => store.close());

async function place(wanted: Partial<PlacedNodes> = {}): Promise<NodeId> {
  const [id] = await placeNodes(db, { pool: 'p', count: 1, since: at(-3600), after: placed++, ...wanted });
  return id as NodeId;
}
const instanceOf = (node_id: NodeId) => node_id.replace('node_', 'inst_') as NodeInstanceId;
const beat = (ids: NodeId[], seconds: number) => storeHeartbeats(db, ids, heartbeat, at(seconds));

const hold = (node_id: NodeId, status = 'active') =>
  db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_of_' || $1, 'p', $1, 't', $2, $3, 'c', $3)`,
    [node_id, status, at(-3600)],
  );

const resourceOf = (node_id: string | null, instance: string | null, resource = `vm/${instance}`): ListedResource => ({
  ...{ driver: 'yard', host: null, kind: 'vm', resource, cost_per_hour: null },
  node_id,
  node_instance_id: instance,
});

const differenceOf = (kind: RestoredDifferenceKind, node_id: string, seen = 'seen'): Difference => ({
  ...{ kind, subject: node_id, driver: 'yard', host: null, node_id, node_instance_id: null, seen },
});

const replace = (source: string, seconds: number, ...differences: Difference[]) =>
  db.transaction((tx) => replaceDifferences(tx, restoration_id, { source, differences }, at(seconds)));

async function readRestoration(): Promise<RestorationRow> {
  const restoration = await readNewestRestoration(db);
  if (!restoration) throw new Error('there is no restoration');
  return restoration;
}
const list = async (page = { cursor: '', limit: 100 }) => listDifferences(db, await readRestoration(), page);
const listSubjects = async () => (await list()).items.map(({ kind, subject }) => `${kind} ${subject}`);

test('a listed machine without a node came, and one of a newer instance changed hands', async () => {
  const same = await place();
  const replaced = await place();
  const retired = await place({ status: 'retired' });
  const listed = [
    resourceOf(same, instanceOf(same)),
    resourceOf(replaced, 'inst_z_newer'),
    // Two resources of one machine are one difference.
    resourceOf(replaced, 'inst_z_newer', 'disk/inst_z_newer'),
    resourceOf('node_unknown', 'inst_unknown'),
    resourceOf(retired, 'inst_of_retired'),
    // Left behind by an instance that was pruned from the rows.
    resourceOf(same, 'inst_a_pruned'),
    // Left behind by an instance that is in the rows.
    resourceOf(retired, instanceOf(retired)),
  ];
  const differences = await compareResources(db, listed);
  expect(differences.map(({ kind, subject }) => [kind, subject]).sort()).toEqual([
    ['came', 'vm/inst_of_retired'],
    ['came', 'vm/inst_unknown'],
    ['changed_hands', replaced],
  ]);
  expect(await compareResources(db, [])).toEqual([]);
});

/** Lets the agent of a node answer a ping. Agents of version 0.1.0 name no release. */
async function answerPing(node_id: NodeId, last_release: string | null | undefined, seconds: number): Promise<void> {
  const node_instance_id = instanceOf(node_id);
  const task_id = newTaskId(clock);
  await queuePing(node_id, task_id, seconds);
  await db.transaction(async (tx) => {
    await leaseNext(tx, node_instance_id, at(seconds), 'pings');
    const result = { pong: true, ...(last_release !== undefined && { last_release }) };
    await answerTask(tx, task_id, node_instance_id, { status: 'succeeded', result }, at(seconds));
  });
}

const queuePing = (node_id: NodeId, task_id: TaskId, seconds: number, expires_in = 120) =>
  db.transaction((tx) =>
    queueTask(
      tx,
      {
        ...{ task_id, node_id, node_instance_id: instanceOf(node_id), type: 'ping', params: {}, lease_seconds: 10 },
        ...{ expires_at: at(seconds + expires_in), correlation_id: null, allocation_id: null, workflow_id: null },
      },
      at(seconds),
    ),
  );

const recordRelease = (workflow_id: string, status: string) =>
  db.query(
    `insert into operations (workflow_id, kind, revision, status, params, correlation_id, created_at)
     values ($1, 'allocation-release', 1, $2, '{}', 'c', $3)`,
    [workflow_id, status, at(-3600)],
  );

const findReleases = async () => {
  await db.query('update restorations set remembers_until = $1', [remembersUntil]);
  const restoration = await readRestoration();
  compared++;
  await db.transaction((tx) => compareReleases(tx, restoration, at(compared)));
  const { items } = await list();
  return items.filter(({ kind }) => kind === 'changed_hands').map(({ subject }) => subject);
};

test('a machine changed hands if its agent ended a release that the rows lack or show as unfinished', async () => {
  const releaseAt = (seconds: number) => firstIdAt('workflow', at(seconds));
  const [known, unfinished, later, pruned, never, retried] = (await Promise.all([
    ...[place(), place(), place(), place(), place(), place()],
  ])) as [NodeId, NodeId, NodeId, NodeId, NodeId, NodeId];
  await recordRelease('wf_known', 'succeeded');
  await recordRelease('wf_unfinished', 'running');
  await recordRelease('wf_failed', 'failed');
  await answerPing(known, 'wf_known', 10);
  await answerPing(unfinished, 'wf_unfinished', 10);
  await answerPing(later, releaseAt(-300), 10);
  await answerPing(pruned, releaseAt(-5000), 10);
  await answerPing(never, null, 10);
  // Somebody may have retried the release after the backup.
  await answerPing(retried, 'wf_failed', 10);
  expect(await findReleases()).toEqual([unfinished, later, retried].sort());
});

test('only the latest answer since the restore counts', async () => {
  const node = await place();
  await recordRelease('wf_known', 'succeeded');
  await answerPing(node, firstIdAt('workflow', at(-300)), -10);
  expect(await findReleases()).toEqual([]);
  await answerPing(node, firstIdAt('workflow', at(-300)), 10);
  expect(await findReleases()).toEqual([node]);
  await answerPing(node, 'wf_known', 20);
  expect(await findReleases()).toEqual([]);
});

test('pings each agent that was heard since the restore, until it answers', async () => {
  const recall = async (seconds: number) =>
    (await findAgentsToAsk(db, start, at(seconds), 100)).map(({ node_id }) => node_id);
  const [heard, silent, retired, agentless] = await Promise.all([
    place(),
    place(),
    place({ status: 'retired' }),
    place(),
  ]);
  await db.query('update instances set credential_hash = null where node_id = $1', [agentless]);
  await beat([heard, retired, agentless], 5);
  await beat([silent], -5);
  // A ping from before the restore does not count.
  await queuePing(heard, newTaskId(clock), -1, 3600);
  expect(await recall(10)).toEqual([heard]);
  await queuePing(heard, newTaskId(clock), 10);
  expect(await recall(20)).toEqual([]);
  // No rule fails the expired ping after a restore.
  expect(await recall(200)).toEqual([heard]);
  await db.query(`update tasks set status = 'failed' where created_at < $1`, [at(10)]);
  await answerPing(heard, null, 210);
  expect(await recall(5000)).toEqual([]);
});

test('a comparison replaces only its own differences, and keeps when each was first seen', async () => {
  await replace('yard', 10, differenceOf('gone', 'a'), differenceOf('gone', 'b'));
  await replace('agents', 10, differenceOf('changed_hands', 'c'));
  await replace('yard', 20, differenceOf('gone', 'b', 'seen again'));
  const { items } = await list();
  expect(items).toMatchObject([
    { kind: 'changed_hands', subject: 'c', first_seen_at: at(10), seen_at: at(10) },
    { kind: 'gone', subject: 'b', seen: 'seen again', first_seen_at: at(10), seen_at: at(20) },
  ]);
  await replace('yard', 30);
  expect(await listSubjects()).toEqual(['changed_hands c']);
});

test('a held machine is confirmed if its agent was heard, and names its last release where machines are reused', async () => {
  const [heard, silent, never, gone, agentless, foreign] = (await Promise.all([
    ...[place(), place(), place(), place({ status: 'degraded' }), place(), place({ status: 'offline' })],
  ])) as [NodeId, NodeId, NodeId, NodeId, NodeId, NodeId];
  const waiting = await place({ pool: 'reused' });
  const answered = await place({ pool: 'reused' });
  const old = await place({ pool: 'reused' });
  const all = [heard, silent, never, gone, agentless, foreign, waiting, answered, old];
  for (const node of all) await hold(node);
  await db.query('update instances set credential_hash = null where node_id = $1', [agentless]);
  await db.query('update instances set credential_hash = null, registered_at = null where node_id = $1', [never]);
  await db.query(`update instances set door = 'agentfield' where node_id = $1`, [foreign]);
  await beat([heard, foreign, waiting, answered, old], 5);
  await beat([silent], -5);
  await answerPing(answered, null, 10);
  await answerPing(old, undefined, 10);
  await replace('yard', 10, differenceOf('gone', gone));
  const unconfirmed = [silent, never, foreign, waiting, old].map((id) => `unconfirmed ${id}`);
  expect(await listSubjects()).toEqual([`gone ${gone}`, ...unconfirmed.sort()]);
});

test('a confirmed machine that no allocation holds is maybe used', async () => {
  const [free, held, released, starting] = await Promise.all([
    ...[place(), place(), place(), place({ status: 'starting' })],
  ]);
  await hold(held as NodeId);
  await hold(released as NodeId, 'released');
  await beat([free, held, released, starting] as NodeId[], 5);
  expect(await listSubjects()).toEqual([free, released, starting].map((id) => `maybe_used ${id}`).sort());
});

test('after the end of the restoration only stored differences are listed', async () => {
  await place();
  await replace('yard', 10, differenceOf('gone', 'a'));
  expect(await countDifferences(db, await readRestoration())).toMatchObject({ gone: 1, unconfirmed: 0, maybe_used: 1 });
  await db.query('update restorations set ended_at = $1', [at(60)]);
  expect(await listSubjects()).toEqual(['gone a']);
  expect(await countDifferences(db, await readRestoration())).toEqual({
    ...{ changed_hands: 0, came: 0, gone: 1, unconfirmed: 0, maybe_used: 0 },
  });
});

test('lists and counts each machine once, in pages', async () => {
  await replace('yard', 10, differenceOf('changed_hands', 'a'), differenceOf('came', 'b'), differenceOf('gone', 'c'));
  await replace('agents', 10, differenceOf('changed_hands', 'a'));
  expect(await countDifferences(db, await readRestoration())).toMatchObject({ changed_hands: 1, came: 1, gone: 1 });
  expect(await listSubjects()).toEqual(['came b', 'changed_hands a', 'gone c']);
  const subjects: string[] = [];
  const sizes: number[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await list({ cursor, limit: 1 });
    subjects.push(...page.items.map(({ kind, subject }) => `${kind} ${subject}`));
    sizes.push(page.items.length);
    cursor = page.cursor;
  }
  expect(subjects).toEqual(['came b', 'changed_hands a', 'gone c']);
  expect(sizes).toEqual([1, 1, 1]);
});

test('machines of an unknown tenant are contested in every live status, unless a person trusts them', async () => {
  const statuses = ['provisioning', 'starting', 'failed', 'draining', 'cleaning'] as const;
  const changed = await Promise.all(statuses.map((status) => place({ status })));
  const [silent, free, held, gone, silentFree] = (await Promise.all([
    ...[place(), place(), place(), place(), place()],
  ])) as [NodeId, NodeId, NodeId, NodeId, NodeId];
  changed.push(await place({ status: 'quarantined' }));
  for (const node of [silent, held, gone]) await hold(node);
  await beat([free, held], 5);
  await replace('agents', 10, ...changed.map((id) => differenceOf('changed_hands', id)));
  await replace('yard', 10, differenceOf('gone', gone));
  const contested = async (trust_free: boolean, trust_unconfirmed: boolean) => {
    const trust = { trust_free, trust_unconfirmed };
    const restoration = await readRestoration();
    const page = { after: '', limit: 100 };
    const nodes = await db.transaction((tx) => lockContestedNodes(tx, restoration, trust, page));
    return nodes.map(({ node_id }) => node_id);
  };
  expect(await contested(false, false)).toEqual([...changed, silent, silentFree, free].sort());
  expect(await contested(true, false)).toEqual([...changed, silent].sort());
  expect(await contested(false, true), 'both free ones').toEqual([...changed, silentFree, free].sort());
  expect(await contested(true, true)).toEqual(changed.sort());
});

test('compares until all machines were inspected and no agent has a ping to answer', async () => {
  const node = await place();
  const comparing = async (seconds: number) => {
    return isComparing(db, await readRestoration(), at(seconds));
  };
  expect(await comparing(1)).toBe(true);
  await db.query('update restorations set inspected_at = $1', [at(1)]);
  expect(await comparing(1)).toBe(false);
  await beat([node], 5);
  expect(await comparing(6), 'to be asked').toBe(true);
  await queuePing(node, newTaskId(clock), 10);
  expect(await comparing(11), 'asked').toBe(true);
  await db.query(`update tasks set status = 'failed'`);
  await answerPing(node, null, 12);
  expect(await comparing(13), 'answered').toBe(false);
});
