/** A certificate says honestly how an allocation ended, and gives away no secret of its pool. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { allocationRow } from '../allocations.ts';
import { recordEvidence } from '../evidence.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { changedField, releaseFacts, releaseRecord } from './release-record.ts';

let store: TestStore;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
});
afterAll(() => store?.close());

async function recordOf(allocation_id: string) {
  const facts = await until('the release to settle', () => releaseFacts(store.db, allocation_id));
  const allocation = await allocationRow(store.db, allocation_id);
  if (!allocation) throw new Error('the allocation is gone');
  expect(changedField(allocation, facts.changes)).toBeUndefined();
  return releaseRecord(store.db, allocation, facts);
}

test('a release without proof is unproven, and what it left is named', async () => {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('released', node);
  await store.db.query(
    `insert into residue (residue_id, driver, kind, resource, allocation_id, why, reason, since)
     values ('res_1', 'external', 'machine', 'rack-7', $1, 'force-release', 'the rack is gone', now())`,
    [allocation_id],
  );
  expect(await recordOf(allocation_id)).toMatchObject({
    release: 'unproven',
    proofs: [],
    residue: [{ residue_id: 'res_1', kind: 'machine', resource: 'rack-7', status: 'open' }],
  });
});

test('a proof of the releasing operation makes it proven; one of another operation does not', async () => {
  const node = await fleet.node('ready');
  const proof = (workflow_id: string | null, allocation_id: string) => ({
    at: fleet.now(),
    layer: 'provider' as const,
    kind: 'proof.absent' as const,
    summary: 'no such machine',
    data: { by: 'driver' },
    node_instance_id: node.node_instance_id,
    allocation_id: allocation_id as never,
    workflow_id: workflow_id as never,
  });
  const { allocation_id, workflow_id } = await fleet.allocation('released', node);
  await recordEvidence(store.db, [proof('op_other', allocation_id)]);
  const before = await recordOf(allocation_id);
  expect(before.release).toBe('unproven');
  await recordEvidence(store.db, [proof(workflow_id, allocation_id)]);
  const after = await recordOf(allocation_id);
  expect(after.release).toBe('proven');
  expect(after.proofs.map(({ kind, by }) => ({ kind, by }))).toEqual([
    { kind: 'absent', by: 'driver' },
    { kind: 'absent', by: 'driver' },
  ]);
  expect(after.instances).toMatchObject([{ node_instance_id: node.node_instance_id, driver: 'external' }]);
});

test('facts that others posted are no proof, and an allocation that differs from its facts is recognised', async () => {
  const node = await fleet.node('ready');
  const { allocation_id, workflow_id } = await fleet.allocation('released', node);
  await store.db.query(
    `insert into evidence (at, layer, kind, summary, data, allocation_id, workflow_id, origin)
     select now(), layer, 'proof.absent', 'gone', '{}', $1, $2, origin
     from unnest(array['provider', 'node'], array['person', 'node']) as posted(layer, origin)`,
    [allocation_id, workflow_id],
  );
  expect(await recordOf(allocation_id)).toMatchObject({ release: 'unproven', proofs: [] });
  const facts = await until('the release to settle', () => releaseFacts(store.db, allocation_id));
  const row = await allocationRow(store.db, allocation_id);
  if (!row) throw new Error('the allocation is gone');
  expect(changedField({ ...row, tenant: 'other' }, facts.changes)).toBe('tenant');
  expect(changedField({ ...row, released_at: null }, facts.changes)).toBe('released_at');
});

test('the digest of a spec depends on neither the values of variables nor on scripts', async () => {
  const digestWith = async (env: Record<string, string>, scripts: object = {}) => {
    await store.db.query(`update pool_generations set document = document || $1 where pool = 'test'`, [
      { spec: { image: 'img:1', env, ...scripts } },
    ]);
    const node = await fleet.node('ready');
    const { allocation_id } = await fleet.allocation('released', node);
    await recordEvidence(store.db, [
      {
        at: fleet.now(),
        layer: 'rule',
        kind: 'node.explained',
        summary: 'ran',
        node_instance_id: node.node_instance_id,
        allocation_id,
      },
    ]);
    const { instances } = await recordOf(allocation_id);
    expect(JSON.stringify(instances)).not.toContain('hunter2');
    return instances[0]?.spec_sha256;
  };
  const first = await digestWith({ TOKEN: 'hunter2' });
  expect(first).toMatch(/^[0-9a-f]{64}$/);
  expect(await digestWith({ TOKEN: 'hunter3' })).toBe(first);
  expect(await digestWith({ OTHER: 'hunter2' })).not.toBe(first);
  const withScript = await digestWith({ TOKEN: 'x' }, { setup: 'login --with hunter2', command: ['run', 'hunter2'] });
  expect(withScript).not.toBe(first);
  expect(await digestWith({ TOKEN: 'x' }, { setup: 'login --with hunter3', command: ['run', 'hunter3'] })).toBe(
    withScript,
  );
});
