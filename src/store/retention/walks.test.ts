/** Retention keeps rows that something needs although their time is over. */
import { afterAll, describe, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { retentionFixture } from '../testing/retention-fixture.ts';

const store = await testStore();
const { db } = store;
const {
  fleet,
  passDays,
  pruneAll,
  exists,
  insertOperation,
  insertTask,
  insertLog,
  insertResidue,
  addEarlierInstance,
  fence,
  createLife,
  findRemains,
} = await retentionFixture(db);
afterAll(() => store.close());

describe('retention keeps', () => {
  test('the operations of an allocation that is not released', async () => {
    const allocation = await fleet.allocation('active', await fleet.node('ready'));
    const id = await insertOperation({ allocation_id: allocation.allocation_id });
    await passDays(400);
    await pruneAll();
    expect(await exists('operations', 'workflow_id', id)).toBe(true);
    expect(await exists('allocations', 'allocation_id', allocation.allocation_id)).toBe(true);
  });

  test('the last operation of a live node, but not its earlier ones', async () => {
    const node = await fleet.node('ready');
    const earlier = await insertOperation({ node_id: node.node_id });
    const last = await insertOperation({ node_id: node.node_id });
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
      const id = await insertOperation({ node_id });
      await passDays(91);
      await pruneAll();
      expect(await exists('operations', 'workflow_id', id)).toBe(true);
    },
  );

  test('operations that have not ended, with their tasks', async () => {
    const node = await fleet.node('ready');
    const workflow_id = await insertOperation({ status: 'running' });
    const task_id = await insertTask(node, { workflow_id });
    const queued = await insertTask(node, { status: 'queued' });
    await passDays(91);
    await pruneAll();
    expect(await exists('operations', 'workflow_id', workflow_id)).toBe(true);
    expect(await exists('tasks', 'task_id', task_id)).toBe(true);
    expect(await exists('tasks', 'task_id', queued)).toBe(true);
  });

  test.each(['open', 'adopted'])('every row that %s residue names', async (status) => {
    const life = await createLife();
    const { node, allocation } = life;
    const id = await insertResidue({
      node,
      allocation_id: allocation.allocation_id,
      workflow_id: life.workflow_id,
      status,
    });
    await passDays(91);
    await pruneAll();
    expect(await exists('residue', 'residue_id', id)).toBe(true);
    expect(await exists('allocations', 'allocation_id', allocation.allocation_id)).toBe(true);
    expect(await exists('nodes', 'node_id', node.node_id)).toBe(true);
    expect(await exists('instances', 'node_instance_id', node.node_instance_id)).toBe(true);
    await db.query(`update residue set status = 'gone', settled_at = $2 where residue_id = $1`, [id, fleet.now()]);
    await pruneAll();
    expect(await findRemains(life)).toEqual(['residue']);
    await passDays(91);
    await pruneAll();
    expect(await findRemains(life)).toEqual([]);
  });

  test('a machine with a credential, until it is proven absent', async () => {
    const { node } = await createLife();
    const { node_id, node_instance_id } = node;
    const live = await fleet.node('ready');
    const earlier = await addEarlierInstance(live, { credential_hash: Buffer.from('earlier') });
    await db.query('update instances set credential_hash = $2 where node_instance_id = $1', [
      node_instance_id,
      Buffer.from('retired'),
    ]);
    const prove = (
      kind: 'proof.revoked' | 'proof.absent',
      instance: { node_instance_id: string | null; node_id: string },
    ) => recordEvidence(db, [{ at: fleet.now(), layer: 'provider', kind, summary: kind, ...instance } as Fact]);
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
    const { node } = await createLife();
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

  test('the instances of a live node that are present, unproven, last registered or last of a token', async () => {
    const node = await fleet.node('ready');
    await db.query(
      `insert into join_tokens (token_id, pool, secret_hash, created_at) values ('t', 'test', 'x', now())`,
    );
    const gone = await addEarlierInstance(node);
    const registered = await addEarlierInstance(node, { registered_at: fleet.now() });
    const lastRegistered = await addEarlierInstance(node, { registered_at: fleet.now() });
    const unproven = await addEarlierInstance(node, { unproven_since: fleet.now() });
    const joined = await addEarlierInstance(node, { join_token_id: 't' });
    const lastJoined = await addEarlierInstance(node, { join_token_id: 't' });
    await fence(node);
    await insertLog(node);
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

test('boot stages stay while their tenant has a later allocation of the machine', async () => {
  const node = await fleet.node('ready');
  await db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, seconds, reported_at) values ($1, 1, 'boot', 1, $2)`,
    [node.node_instance_id, fleet.now()],
  );
  const stages = () => db.query('select name from boot_stages where node_instance_id = $1', [node.node_instance_id]);
  const first = await fleet.allocation('released', node);
  await passDays(60);
  await fleet.allocation('released', node);
  await passDays(31);
  await pruneAll();
  expect(await exists('allocations', 'allocation_id', first.allocation_id)).toBe(false);
  expect(await stages()).toEqual([{ name: 'boot' }]);
  await fleet.allocation('released', node, 'other');
  await passDays(60);
  await pruneAll();
  expect(await stages()).toEqual([]);
});
