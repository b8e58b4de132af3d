/**
 * Evidence is append-only for every role, and retention drops whole partitions with a signed
 * record.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { emptyDatabase, execute, type TestDatabase } from '../../../test/support/database.ts';
import { memoryKeyRing } from '../../../test/support/key-ring.ts';
import { until } from '../../../test/support/until.ts';
import { secondsLater } from '../../base/clock.ts';
import { walkChain } from '../../contract/evidence/integrity/walk-chain.ts';
import { defaultKeepSeconds, midnightAfter, partitionSeconds } from '../../lifecycle/limits/retention.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { readTimeline } from '../evidence/evidence.ts';
import { createSealer, type Sealer } from '../integrity/sealer.ts';
import { createEvidenceSigner } from '../integrity/signer.ts';
import { verifyPage } from '../integrity/verify-chain.ts';
import { migrate } from '../migrate.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { rebuildAllocations, rebuildNodes } from './projection.ts';
import { cutEvidence, extendEvidence, listPartitions, readNewestCut } from './retention.ts';
import { rebuildNodesAt } from './time-travel.ts';

const day = 24 * 3600;
const suffix = randomBytes(4).toString('hex');
const roles = { owner: `owner_${suffix}`, application: `application_${suffix}` };
/** Retention times differ per layer, so that timelines are cut in the middle. */
const keep = {
  ...defaultKeepSeconds,
  node: 12 * day,
  workflow: 12 * day,
  operator: 24 * day,
  store: 12 * day,
};

let database: TestDatabase;
let owner: Database;
let db: Database;
let fleet: Fleet;
let sealer: Sealer;
const ring = memoryKeyRing();
const signer = createEvidenceSigner(ring);

const urlFor = (role: string): string => {
  const url = new URL(database.url);
  url.username = role;
  url.password = suffix;
  return url.href;
};

beforeAll(async () => {
  database = await emptyDatabase();
  const server = inject('postgresUrl');
  for (const role of Object.values(roles)) await execute(server, `create role ${role} login password '${suffix}'`);
  await execute(database.url, `alter database ${new URL(database.url).pathname.slice(1)} owner to ${roles.owner}`);
  await migrate(urlFor(roles.owner), { application_role: async () => roles.application });
  owner = openDatabase({ url: urlFor(roles.owner) });
  db = openDatabase({ url: urlFor(roles.application) });
  fleet = await testFleet(db);
  sealer = createSealer({ db, key_ring: ring, installation: { installation_id: 'slipway-test' } });
});

afterAll(async () => {
  await db.close();
  await owner.close();
  await database.drop();
  for (const role of Object.values(roles)) await execute(inject('postgresUrl'), `drop role ${role}`);
});

/** Retention waits for the seals, so the tests do too. */
const sealAll = () =>
  until('everything to be sealed', async () => {
    while ((await sealer.sealBatch(fleet.now())).more);
    return (await verifyPage(db, signer, Number.MAX_SAFE_INTEGER)).tail?.rows === 0;
  });

async function verifyAll() {
  const walk = walkChain({ trusted: [signer.current().public_key] });
  const faults: unknown[] = [];
  const kinds = new Set<string>();
  for (let from: number | null = 1; from !== null; ) {
    const page: Awaited<ReturnType<typeof verifyPage>> = await verifyPage(db, signer, from);
    for (const checkpoint of page.checkpoints) {
      const { body, faults: found } = walk.add(checkpoint);
      kinds.add(body?.kind ?? 'unreadable');
      faults.push(...found);
    }
    faults.push(...page.faults);
    for (const cut of page.cuts) walk.countCut(cut.checkpoint, cut.rows);
    from = page.next;
  }
  return { faults: [...faults, ...walk.finish()], kinds: [...kinds].sort() };
}

const readRows = (table: string, key: string, ids: string[]) =>
  db.query(`select * from ${table} where ${key} = any($1) order by ${key}`, [ids]);

test('splits a layer into few partitions, even if its retention time is long', () => {
  expect([day, 4 * day, 90 * day, 400 * day, 9000 * day].map((seconds) => partitionSeconds(seconds) / day)).toEqual([
    1, 1, 23, 100, 365,
  ]);
  expect(new Date(midnightAfter(new Date('2026-03-01T10:00:00Z'))).toISOString()).toBe('2026-03-02T00:00:00.000Z');
});

test.for([
  `update evidence set summary = 'otherwise'`,
  'delete from evidence',
  'truncate evidence',
  `delete from evidence_rule_rest`,
  `update evidence_rule set summary = 'otherwise'`,
])('neither the application nor the owner may %s', async (statement) => {
  await fleet.node('ready');
  await expect(db.query(statement)).rejects.toThrow('permission denied');
  await expect(owner.query(statement)).rejects.toThrow('permission denied');
});

test.for([
  'drop table evidence_rule_rest',
  'alter table evidence disable trigger all',
  'grant delete on evidence to current_user',
  `insert into evidence_cuts values ('x', 'rule', now(), now(), 0)`,
  `delete from schema_migrations`,
])('the application may not %s', async (statement) => {
  const before = await db.query('select 1 from evidence');
  // PostgreSQL only warns about a grant without effect.
  await db.query(statement).then(
    () => expect(statement).toContain('grant'),
    (error: Error) => expect(error.message).toMatch(/must be owner|permission denied/),
  );
  expect(await db.query('select 1 from evidence')).toHaveLength(before.length);
  await expect(db.query('delete from evidence')).rejects.toThrow('permission denied');
});

test('creates no bounded partition on the first day, and refuses to cut a partition younger than a day', async () => {
  expect(await extendEvidence(db, keep, fleet.now())).toEqual([]);
  await db.query(`select evidence_extend('api', now() + interval '1 day')`);
  const [partition] = await listPartitions(db);
  await expect(db.query('select evidence_cut($1)', [partition?.piece])).rejects.toThrow('younger than a day');
  await expect(db.query(`select evidence_cut('nodes')`)).rejects.toThrow('no piece nodes');
  await expect(db.query(`select evidence_extend('x', now())`)).rejects.toThrow('no layer x');
});

test('drops expired evidence, still rebuilds rows, and adds a snapshot to timelines', async () => {
  const retired = await fleet.node('retired');
  const idle = await fleet.node('ready');
  const busy = await fleet.node('ready');
  const held = await fleet.node('ready');
  const allocation = await fleet.allocation('active', held);
  const nodes = [idle, busy, held].map(({ node_id }) => node_id);
  const startedAt = fleet.now();
  const past: { id: string; at: Date; since: Date }[] = [];

  for (let days = 6; days <= 54; days += 6) {
    await fleet.clock.advance(6 * day * 1000);
    await extendEvidence(db, keep, fleet.now());
    await fleet.move({ node_id: busy.node_id, to: 'offline', by: 'liveness', reason: `day ${days}` });
    await fleet.move({ node_id: busy.node_id, to: 'ready', by: 'heartbeat-returned', reason: `day ${days}` });
    await sealAll();
    await cutEvidence(db, sealer, keep, fleet.now());
    const [row] = await db.query<NodeRow>('select * from nodes where node_id = $1', [busy.node_id]);
    if (row) past.push({ id: row.node_id, at: fleet.now(), since: row.status_since });
    expect(await rebuildNodes(db, nodes)).toEqual(await readRows('nodes', 'node_id', nodes));
    expect(await rebuildAllocations(db, [allocation.allocation_id])).toEqual(
      await readRows('allocations', 'allocation_id', [allocation.allocation_id]),
    );
  }

  // No fact is older than the retention time of its layer plus one partition and one loop step.
  const oldest = await db.query<{ layer: keyof typeof keep; at: Date }>(
    `select layer, min(at) as at from evidence where kind not like '%.snapshot' group by 1`,
  );
  for (const { layer, at } of oldest) {
    const maxSeconds = keep[layer] + partitionSeconds(keep[layer]) + 6 * day;
    expect(at >= secondsLater(fleet.now(), -maxSeconds), `${layer} from ${at.toISOString()}`).toBe(true);
  }
  expect((await listPartitions(db)).filter(({ layer }) => layer === 'node').length).toBeLessThanOrEqual(8);
  expect(await owner.query('select 1 from evidence_node_rest')).toEqual([]);
  expect(await readNewestCut(db)).toBeInstanceOf(Date);

  const items = await until('the snapshot to be readable', async () => {
    const page = await readTimeline(db, { visibility: wholeFleet, node_id: idle.node_id, order: 'oldest', limit: 100 });
    return page.items.length > 0 ? page.items : undefined;
  });
  expect(items.map(({ kind }) => kind)).toEqual(['node.snapshot']);
  expect(items[0]?.summary).toMatch(
    /^dropped facts of layer \w+ that are older than \S+: their retention time is over; the status was ready$/,
  );
  expect((await readTimeline(db, { visibility: wholeFleet, node_id: retired.node_id, limit: 1 })).items).toEqual([]);
  const cuts = await db.query<{ data: { facts: number } }>(`select data from evidence where kind = 'evidence.cut'`);
  expect(cuts.length).toBeGreaterThan(0);
  // States since the newest cut can be rebuilt.
  const cut = (await readNewestCut(db)) ?? startedAt;
  expect(startedAt < cut).toBe(true);
  const rebuildable = past.filter(({ at }) => at >= cut);
  expect(rebuildable.length).toBeGreaterThan(1);
  expect((await rebuildNodesAt(db, rebuildable)).map((each) => each?.state.status_since)).toEqual(
    rebuildable.map(({ since }) => since.toISOString()),
  );
});

test('reports a deleted row as a fault, but not rows that a signed cut dropped', async () => {
  await sealAll();
  expect(await verifyAll()).toEqual({ faults: [], kinds: ['cut', 'key', 'late', 'rows'] });
  const dba = openDatabase({ url: database.url });
  try {
    const [row] = await dba.query<{ cursor: string; layer: string }>(
      `delete from evidence
       where (xid, seq) = (
         select xid, seq from evidence
         where layer = 'node'
         order by xid desc, seq desc
         limit 1
       )
       returning xid || '-' || seq as cursor, layer`,
    );
    expect((await verifyAll()).faults).toEqual([
      expect.objectContaining({ code: 'row_deleted', partition: row?.layer, cursor: row?.cursor }),
    ]);
    await fleet.clock.advance(60 * day * 1000);
    await extendEvidence(db, keep, fleet.now());
    await sealAll();
    await cutEvidence(db, sealer, keep, fleet.now());
    // The row would have been dropped by now, but the cut signed how many rows it dropped.
    expect((await verifyAll()).faults).toEqual([
      expect.objectContaining({ code: 'cut_incomplete', partition: row?.layer }),
    ]);
  } finally {
    await dba.close();
  }
});

test('does not cut a partition with unsealed rows', async () => {
  await fleet.node('ready');
  await fleet.clock.advance(60 * day * 1000);
  await extendEvidence(db, keep, fleet.now());
  const before = await listPartitions(db);
  await fleet.clock.advance(60 * day * 1000);
  const unsealed = await db.query<{ layer: string }>(
    `select distinct layer from evidence
     where (xid, seq) > (
       select through_xid, through_seq from evidence_checkpoints
       order by position desc
       limit 1
     )`,
  );
  expect(unsealed.length).toBeGreaterThan(0);
  await cutEvidence(db, sealer, keep, fleet.now());
  const remaining = await listPartitions(db);
  for (const { layer } of unsealed)
    expect(remaining.filter((piece) => piece.layer === layer).length, layer).toBeGreaterThan(0);
  expect(remaining.length).toBeLessThan(before.length);
  await sealAll();
});

test('moves existing facts into a partition that is created after them', async () => {
  await fleet.clock.advance(15 * day * 1000);
  const node = await fleet.node('ready');
  const unpartitioned = 'select 1 from evidence_node_rest union all select 1 from evidence_operator_rest';
  expect((await owner.query(unpartitioned)).length).toBeGreaterThan(0);
  // The newest fact comes first; when it is readable, all are.
  const before = await until('the timeline to be readable', async () => {
    const page = await readTimeline(db, { visibility: wholeFleet, node_id: node.node_id, limit: 100 });
    return page.items[0]?.kind === 'node.ready' ? page : undefined;
  });
  await extendEvidence(db, keep, fleet.now());
  expect(await owner.query(unpartitioned)).toEqual([]);
  expect(await readTimeline(db, { visibility: wholeFleet, node_id: node.node_id, limit: 100 })).toEqual(before);
  await expect(owner.query('delete from evidence_rule_rest')).rejects.toThrow('permission denied');
});

test('a replica of an earlier version cannot cut evidence without a signed checkpoint', async () => {
  await fleet.node('ready');
  await fleet.clock.advance(5 * day * 1000);
  await extendEvidence(db, keep, fleet.now());
  await fleet.clock.advance(20 * day * 1000);
  await sealAll();
  const before = await listPartitions(db);
  const facts = await db.query<{ facts: string }>('select count(*) as facts from evidence');
  // The first query of an earlier version, before it writes snapshots.
  await expect(db.query('select layer, piece, until from evidence_pieces() order by until, layer')).rejects.toThrow(
    'evidence_pieces() does not exist',
  );
  // A replica that ran the first query before the migration.
  const unsigned = db.transaction(async (tx) => {
    const [cut] = await tx.query<{ facts: string }>('select evidence_cut($1) as facts', [before[0]?.piece]);
    return cut;
  });
  await expect(unsigned).rejects.toThrow('was cut without a signed checkpoint');
  expect(await listPartitions(db)).toEqual(before);
  expect(await db.query('select count(*) as facts from evidence')).toEqual(facts);
  expect(await cutEvidence(db, sealer, keep, fleet.now())).toBeGreaterThan(0);
  expect((await listPartitions(db)).length).toBeLessThan(before.length);
});
