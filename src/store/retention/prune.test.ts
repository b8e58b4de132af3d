/** Rows are deleted when the time of their class is over, and stay while something needs them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { firstIdAt, newNodeInstanceId, newResidueId, newTaskId, newWorkflowId } from '../../base/ids.ts';
import { defaultRetentionSeconds, otherTables, timedClasses } from '../../lifecycle/limits/retention-classes.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { verifySlice } from '../history/verify-rows.ts';
import type { Database } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { createPruner } from './prune.ts';
import { pageSize, walks } from './walks.ts';

const daySeconds = 24 * 3600;

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

/** The test clock, with another time for each id. */
const ids = () => ({ ...fleet.clock, nowMs: () => fleet.now().getTime() });
const passDays = (days: number) => fleet.clock.advance(days * daySeconds * 1000);
const later = (seconds: number) => secondsLater(fleet.now(), seconds);

/** Runs passes until one deletes nothing, with new cursors, as a server that has just started. */
async function pruneAll(): Promise<number> {
  const pruner = createPruner(db);
  let total = 0;
  for (let isAtEnd = false; !isAtEnd; ) {
    const { deleted, more } = await pruner.pass(defaultRetentionSeconds, fleet.now());
    total += deleted;
    isAtEnd = deleted === 0 && !more;
  }
  return total;
}

async function exists(table: string, key: string, id: string | null): Promise<boolean> {
  return (await db.query(`select 1 from ${table} where ${key} = $1`, [id])).length > 0;
}

async function operation(
  of: { node_id?: string | null; allocation_id?: string | null; status?: string; in_node?: boolean } = {},
): Promise<string> {
  const id = newWorkflowId(ids());
  const { status = 'succeeded', node_id = null, allocation_id = null } = of;
  await db.query(
    `insert into operations (workflow_id, kind, revision, status, node_id, allocation_id, correlation_id, created_at, finished_at)
     values ($1, 'test', 1, $2, $3, $4, 'c', $5::timestamptz, case when $2 = 'running' then null else $5::timestamptz end)`,
    [id, status, node_id, allocation_id, fleet.now()],
  );
  await db.query(`insert into steps (workflow_id, ordinal, name, label, status) values ($1, 1, 's', 's', 'done')`, [
    id,
  ]);
  await db.query(`insert into step_receipts (workflow_id, receipt, at) values ($1, 'r', now())`, [id]);
  return id;
}

async function task(node: NodeRow, more: { status?: string; workflow_id?: string } = {}): Promise<string> {
  const id = newTaskId(ids());
  const { status = 'succeeded', workflow_id = null } = more;
  await db.query(
    `insert into tasks (task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, workflow_id, created_at, finished_at)
     values ($1, $2, $3, 'ping', '{}', $4, 30, $5::timestamptz, $6, $5::timestamptz, case when $4 = 'succeeded' then $5::timestamptz end)`,
    [id, node.node_id, node.node_instance_id, status, fleet.now(), workflow_id],
  );
  return id;
}

async function log(node: NodeRow, instance = node.node_instance_id): Promise<void> {
  await db.query(
    `insert into node_log_ends (node_instance_id, node_id, last_seq, bytes) values ($1, $2, 9, 1000) on conflict do nothing`,
    [instance, node.node_id],
  );
  await db.query(
    `insert into node_log_chunks (node_instance_id, last_seq, node_id, first_seq, last_at, lines, raw_bytes, packing, content)
     values ($1, 9, $2, 1, $3, 9, 9, 'none', 'x')`,
    [instance, node.node_id, fleet.now()],
  );
}

async function residue(of: { node?: NodeRow; allocation_id?: string; workflow_id?: string; status: string }) {
  const id = newResidueId(ids());
  const { node, allocation_id = null, workflow_id = null, status } = of;
  await db.query(
    `insert into residue (residue_id, driver, kind, resource, node_id, node_instance_id, allocation_id, workflow_id, why, reason, status, since, settled_at)
     values ($1, 'local', 'process', $1, $2, $3, $4, $5, 'orphan', 'test', $6, $7::timestamptz, case when $6 <> 'open' then $7::timestamptz end)`,
    [id, node?.node_id ?? null, node?.node_instance_id ?? null, allocation_id, workflow_id, status, fleet.now()],
  );
  return id;
}

/** Adds an earlier, fenced instance of a node. */
async function earlierInstance(node: NodeRow, set: Record<string, unknown> = {}): Promise<string> {
  const id = newNodeInstanceId(ids());
  const columns = { fenced_at: fleet.now(), ...set };
  await db.query(
    `insert into instances (node_instance_id, node_id, attempt, created_at, ${Object.keys(columns).join(', ')})
     select $1, $2, 1 + max(attempt), $3, ${Object.keys(columns).map((_, i) => `$${i + 4}`)}
     from instances where node_id = $2`,
    [id, node.node_id, fleet.now(), ...Object.values(columns)],
  );
  return id;
}

const fence = (node: NodeRow) =>
  db.query('update instances set fenced_at = $2 where node_instance_id = $1', [node.node_instance_id, fleet.now()]);

interface Life {
  node: NodeRow;
  allocation: AllocationRow;
  workflow_id: string;
  task_id: string;
}

/** A machine and its allocation, from the request to the retirement. */
async function wholeLife(): Promise<Life> {
  const node = await fleet.node('retired');
  const allocation = await fleet.allocation('released', node);
  await fence(node);
  const { node_id, node_instance_id } = node;
  const workflow_id = await operation({ node_id, allocation_id: allocation.allocation_id });
  await db.query(
    `insert into recovery_targets (workflow_id, ordinal, allocation_id, node_id, state) values ($1, 1, $2, $3, 'recovered')`,
    [workflow_id, allocation.allocation_id, node_id],
  );
  await db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, seconds, reported_at) values ($1, 1, 'init', 1, $2)`,
    [node_instance_id, fleet.now()],
  );
  await db.query(`insert into boot_signs (node_instance_id, seen_at, kind, code) values ($1, $2, 'part', 'init')`, [
    node_instance_id,
    fleet.now(),
  ]);
  await db.query(
    `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds) values ($1, $2, 10, 30)`,
    [node_instance_id, fleet.now()],
  );
  await db.query('insert into probes (node_instance_id, tried_at) values ($1, $2)', [node_instance_id, fleet.now()]);
  await db.query(
    `insert into boot_samples (node_instance_id, phase, node_id, pool, pool_generation, started_at, seconds, outcome, at)
     values ($1, 'start', $2, 'test', 1, $3, 1, 'completed', $3)`,
    [node_instance_id, node_id, fleet.now()],
  );
  await log(node);
  return { node, allocation, workflow_id, task_id: await task(node) };
}

/** Every table that has a row of this life, apart from evidence. */
async function remains({ node, allocation, workflow_id }: Life): Promise<string[]> {
  const keys = {
    node_id: node.node_id,
    node_instance_id: node.node_instance_id,
    allocation_id: allocation.allocation_id,
    workflow_id,
  };
  const found = new Set<string>();
  for (const [key, id] of Object.entries(keys)) {
    const tables = await db.query<{ name: string }>(
      `select cls.relname as name from pg_class cls join pg_attribute att on att.attrelid = cls.oid
       where relnamespace = 'public'::regnamespace and relkind = 'r' and not relispartition and attname = $1`,
      [key],
    );
    for (const { name } of tables) if (await exists(name, key, id)) found.add(name);
  }
  return [...found].sort();
}

const factsOf = (key: string, id: string) =>
  db.query<{ kind: string; data: Record<string, unknown> }>(
    `select kind, data from evidence where ${key} = $1 and kind like '%.pruned'`,
    [id],
  );

test('every table has one class of retention', async () => {
  const tables = await db.query<{ name: string }>(
    `select relname as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  const classed = [...Object.values(timedClasses).flatMap((each) => [...each.tables]), ...Object.keys(otherTables)];
  expect(classed.filter((name) => !name.startsWith('dbos.')).sort()).toEqual(tables.map(({ name }) => name).sort());
});

describe('a released allocation and its retired machine', () => {
  test('go when their time is over, tasks and logs first, and leave a fact', async () => {
    const life = await wholeLife();
    await passDays(29);
    await pruneAll();
    const all = await remains(life);
    expect(all).toContain('tasks');
    expect(all).toContain('node_log_chunks');
    await passDays(2);
    expect(await pruneAll()).toBe(2);
    expect(await remains(life)).toEqual(all.filter((name) => name !== 'tasks' && name !== 'node_log_chunks'));
    await passDays(58);
    expect(await pruneAll()).toBe(0);
    await passDays(2);
    await pruneAll();
    expect(await remains(life)).toEqual([]);
    expect(await factsOf('allocation_id', life.allocation.allocation_id)).toEqual([
      {
        kind: 'allocation.pruned',
        data: expect.objectContaining({ retention: 'allocations', keep_seconds: 90 * daySeconds, tenant: 'acme' }),
      },
    ]);
    expect(await factsOf('node_id', life.node.node_id)).toMatchObject([
      { kind: 'node.pruned', data: { retention: 'nodes', keep_seconds: 90 * daySeconds } },
    ]);
  });

  test('leave evidence that verification explains, and that a deletion by hand does not', async () => {
    const life = await wholeLife();
    const byHand = await fleet.allocation('released');
    await passDays(91);
    await pruneAll();
    const rowless = async () => {
      const slices = [
        await verifySlice(db, 'nodes', { cursor: '', limit: 10_000 }),
        await verifySlice(db, 'allocations', { cursor: '', limit: 10_000 }),
      ];
      return slices.flatMap(({ differing }) => differing).filter(({ ours }) => Object.keys(ours).length === 0);
    };
    expect(await remains(life)).toEqual([]);
    expect(await rowless()).toEqual([]);
    const other = await fleet.allocation('released');
    await db.query('delete from allocations where allocation_id = $1', [other.allocation_id]);
    expect(await rowless()).toMatchObject([{ subject: other.allocation_id }]);
    expect(await exists('allocations', 'allocation_id', byHand.allocation_id)).toBe(false);
  });
});

describe('a row that something needs stays', () => {
  test('the operations of an allocation that is not released', async () => {
    const allocation = await fleet.allocation('active', await fleet.node('ready'));
    const id = await operation({ allocation_id: allocation.allocation_id });
    await passDays(400);
    await pruneAll();
    expect(await exists('operations', 'workflow_id', id)).toBe(true);
    expect(await exists('allocations', 'allocation_id', allocation.allocation_id)).toBe(true);
  });

  test('the last operation of a live node, but not its earlier ones', async () => {
    const node = await fleet.node('ready');
    const earlier = await operation({ node_id: node.node_id });
    const last = await operation({ node_id: node.node_id });
    await db.query('update nodes set workflow_id = $2 where node_id = $1', [node.node_id, last]);
    await passDays(91);
    await pruneAll();
    expect(await exists('operations', 'workflow_id', last)).toBe(true);
    expect(await exists('operations', 'workflow_id', earlier)).toBe(false);
    await db.query('update nodes set workflow_id = null where node_id = $1', [node.node_id]);
  });

  test.each(['failed', 'draining', 'cleaning', 'quarantined'] as const)(
    'the operations of a node that is %s',
    async (status) => {
      const { node_id } = await fleet.node(status);
      const id = await operation({ node_id });
      await passDays(91);
      await pruneAll();
      expect(await exists('operations', 'workflow_id', id)).toBe(true);
    },
  );

  test('operations that have not ended, with their tasks', async () => {
    const node = await fleet.node('ready');
    const workflow_id = await operation({ status: 'running' });
    const task_id = await task(node, { workflow_id });
    const queued = await task(node, { status: 'queued' });
    await passDays(91);
    await pruneAll();
    expect(await exists('operations', 'workflow_id', workflow_id)).toBe(true);
    expect(await exists('tasks', 'task_id', task_id)).toBe(true);
    expect(await exists('tasks', 'task_id', queued)).toBe(true);
  });

  test.each(['open', 'adopted'])('all that %s residue names', async (status) => {
    const life = await wholeLife();
    const { node, allocation } = life;
    const id = await residue({ node, allocation_id: allocation.allocation_id, workflow_id: life.workflow_id, status });
    await passDays(91);
    await pruneAll();
    expect(await exists('residue', 'residue_id', id)).toBe(true);
    expect(await exists('allocations', 'allocation_id', allocation.allocation_id)).toBe(true);
    expect(await exists('nodes', 'node_id', node.node_id)).toBe(true);
    expect(await exists('instances', 'node_instance_id', node.node_instance_id)).toBe(true);
    await db.query(`update residue set status = 'gone', settled_at = $2 where residue_id = $1`, [id, fleet.now()]);
    await pruneAll();
    expect(await remains(life)).toEqual(['residue']);
    await passDays(91);
    await pruneAll();
    expect(await remains(life)).toEqual([]);
  });

  test('a machine with a credential, until it is proven absent', async () => {
    const { node } = await wholeLife();
    const { node_id, node_instance_id } = node;
    const live = await fleet.node('ready');
    const earlier = await earlierInstance(live, { credential_hash: Buffer.from('earlier') });
    await db.query('update instances set credential_hash = $2 where node_instance_id = $1', [
      node_instance_id,
      Buffer.from('retired'),
    ]);
    const prove = (kind: 'proof.revoked' | 'proof.absent', of: { node_instance_id: string | null; node_id: string }) =>
      recordEvidence(db, [{ at: fleet.now(), layer: 'provider', kind, summary: kind, ...of } as Fact]);
    await prove('proof.revoked', node);
    await passDays(400);
    await pruneAll();
    expect(await exists('instances', 'node_instance_id', node_instance_id)).toBe(true);
    expect(await exists('nodes', 'node_id', node_id)).toBe(true);
    expect(await exists('instances', 'node_instance_id', earlier)).toBe(true);
    await prove('proof.absent', node);
    await prove('proof.absent', { node_id: live.node_id, node_instance_id: earlier });
    await pruneAll();
    expect(await exists('nodes', 'node_id', node_id)).toBe(false);
    expect(await exists('instances', 'node_instance_id', earlier)).toBe(false);
  });

  test('a retired node with an open finding', async () => {
    const { node } = await wholeLife();
    await db.query(
      `insert into findings (finding_id, kind, what, subject, node_id, ours, theirs, first_seen_at, seen_at, status)
       values ('f', 'drift', 'w', 's', $1, '{}', '{}', $2, $2, 'open')`,
      [node.node_id, fleet.now()],
    );
    await passDays(91);
    await pruneAll();
    expect(await exists('nodes', 'node_id', node.node_id)).toBe(true);
    await db.query(`update findings set status = 'resolved', closed_at = $1`, [fleet.now()]);
    await passDays(31);
    await pruneAll();
    expect(await exists('nodes', 'node_id', node.node_id)).toBe(false);
    expect(await exists('findings', 'finding_id', 'f')).toBe(false);
  });

  test('of a live node the instances that are present, unproven, last registered or last of a token', async () => {
    const node = await fleet.node('ready');
    await db.query(
      `insert into join_tokens (token_id, pool, secret_hash, created_at) values ('t', 'test', 'x', now())`,
    );
    const gone = await earlierInstance(node);
    const registered = await earlierInstance(node, { registered_at: fleet.now() });
    const lastRegistered = await earlierInstance(node, { registered_at: fleet.now() });
    const unproven = await earlierInstance(node, { unproven_since: fleet.now() });
    const joined = await earlierInstance(node, { join_token_id: 't' });
    const lastJoined = await earlierInstance(node, { join_token_id: 't' });
    await fence(node);
    await log(node);
    await passDays(91);
    await pruneAll();
    const left = await db.query<{ id: string }>(
      'select node_instance_id as id from instances where node_id = $1 order by attempt',
      [node.node_id],
    );
    expect(left.map(({ id }) => id)).toEqual([node.node_instance_id, lastRegistered, unproven, lastJoined]);
    for (const id of [gone, registered, joined]) expect(await exists('instances', 'node_instance_id', id)).toBe(false);
    // The size limit bounds the logs of the present instance.
    expect(await exists('node_log_chunks', 'node_instance_id', node.node_instance_id)).toBe(true);
  });

  test('the newest gap, the last listening replica, replicas at work and the last budget', async () => {
    const then = fleet.now();
    await db.query(`insert into ingest_gaps (started_at, ended_at, cause) values ($1, $1, 'a'), ($2, $2, 'b')`, [
      then,
      later(60),
    ]);
    await db.query(
      `insert into replicas (replica_id, host, pid, address, version, started_at, lease_until, ended_at, flushed_through)
       select id, 'h', 1, '', '1', $1::timestamptz, $1::timestamptz, $1::timestamptz, flushed
       from (values ('old', $1::timestamptz), ('listening', $2::timestamptz), ('working', $1::timestamptz)) as row(id, flushed)`,
      [then, later(60)],
    );
    const work = await operation({ status: 'running' });
    await db.query(`update operations set replica_id = 'working' where workflow_id = $1`, [work]);
    await db.query(
      `insert into budget_changes (pool, at, from_seconds, seconds) values ('test', $1, 1, 2), ('test', $2, 2, 3)`,
      [then, later(60)],
    );
    await db.query(
      `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until, ended_at)
       values ('ended', 'self-fault', 'r', 'pool', 'p', 'x', 1, 1, $1, $1, $1), ('held', 'self-fault', 'r', 'pool', 'p', 'x', 1, 1, $1, $1, null)`,
      [then],
    );
    await db.query(
      `insert into maintenance_windows (name, starts_at, ends_at, reason, created_at) values ('past', $1, $1, 'x', $1), ('coming', $1, $2, 'x', $1)`,
      [then, later(200 * daySeconds)],
    );
    await passDays(91);
    await pruneAll();
    const names = async (sql: string) => (await db.query<{ name: string }>(sql)).map(({ name }) => name);
    expect(await names('select cause as name from ingest_gaps')).toEqual(['b']);
    expect(await names('select replica_id as name from replicas order by 1')).toEqual(['listening', 'working']);
    expect(await names('select seconds::text as name from budget_changes')).toEqual(['3']);
    expect(await names('select hold_id as name from brake_holds')).toEqual(['held']);
    expect(await names('select name from maintenance_windows')).toEqual(['coming']);
  });
});

test('boot stages of a live machine go with the allocation that hid them from other tenants', async () => {
  const node = await fleet.node('ready');
  await db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, seconds, reported_at) values ($1, 1, 'before', 1, $2)`,
    [node.node_instance_id, fleet.now()],
  );
  await fleet.allocation('released', node, 'other');
  await passDays(91);
  await db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, seconds, reported_at) values ($1, 2, 'since', 1, $2)`,
    [node.node_instance_id, fleet.now()],
  );
  await pruneAll();
  expect(await db.query('select name from boot_stages where node_instance_id = $1', [node.node_instance_id])).toEqual([
    { name: 'since' },
  ]);
});

test('a walk passes a page of rows that stay', async () => {
  const { node_id } = await fleet.node('quarantined');
  for (let n = 0; n < pageSize; n++) await operation({ node_id });
  const ended = await operation();
  await passDays(91);
  const pruner = createPruner(db);
  expect(await pruner.pass(defaultRetentionSeconds, fleet.now())).toMatchObject({ more: true });
  expect(await exists('operations', 'workflow_id', ended)).toBe(true);
  await pruner.pass(defaultRetentionSeconds, fleet.now());
  expect(await exists('operations', 'workflow_id', ended)).toBe(false);
});

test('walks of different lengths end together', async () => {
  const { node_id } = await fleet.node('quarantined');
  for (let n = 0; n < pageSize; n++) await operation({ node_id });
  await db.query(
    `insert into instances (node_instance_id, node_id, attempt, created_at, fenced_at, credential_hash)
     select $1 || lpad(i::text, 11, '0'), $2, i, $3, $3, sha256(i::text::bytea)
     from generate_series(10, $4::int) as i`,
    [firstIdAt('instance', fleet.now()), node_id, fleet.now(), 10 + 4 * pageSize],
  );
  await passDays(91);
  await pruneAll();
  const pruner = createPruner(db);
  let passes = 1;
  while ((await pruner.pass(defaultRetentionSeconds, fleet.now())).more) passes++;
  expect(passes).toBe(5);
  await db.query('delete from instances where node_id = $1 and attempt >= 10', [node_id]);
});

test('a crash in the middle of any batch leaves whole lives, and the next pass finishes', async () => {
  const lives = [await wholeLife(), await wholeLife()];
  await passDays(91);
  for (let crashAt = 0; crashAt < walks.length; crashAt++) {
    const before = await Promise.all(lives.map(remains));
    let batches = 0;
    const crashing: Database = {
      ...db,
      transaction: (work) =>
        db.transaction(async (tx) => {
          const result = await work(tx);
          if (batches++ === crashAt) throw new Error('crash');
          return result;
        }),
    };
    await expect(createPruner(crashing).pass(defaultRetentionSeconds, fleet.now())).rejects.toThrow('crash');
    if (crashAt === 0) expect(await Promise.all(lives.map(remains))).toEqual(before);
    for (const { allocation } of lives)
      expect(await factsOf('allocation_id', allocation.allocation_id)).toHaveLength(
        (await exists('allocations', 'allocation_id', allocation.allocation_id)) ? 0 : 1,
      );
    if ((await Promise.all(lives.map(remains))).every((tables) => tables.length === 0)) break;
  }
  await pruneAll();
  expect(await Promise.all(lives.map(remains))).toEqual([[], []]);
});

test('two replicas prune at once, and each row is recorded once', async () => {
  const lives = await Promise.all(Array.from({ length: 8 }, wholeLife));
  await passDays(91);
  await Promise.all([pruneAll(), pruneAll(), pruneAll()]);
  await pruneAll();
  for (const life of lives) {
    expect(await remains(life)).toEqual([]);
    expect(await factsOf('allocation_id', life.allocation.allocation_id)).toHaveLength(1);
    expect(await factsOf('node_id', life.node.node_id)).toHaveLength(1);
  }
});
