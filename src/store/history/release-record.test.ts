/** A release certificate shows how the allocation was used, and reveals no secret of the pool. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import type { AllocationId, WorkflowId } from '../../base/ids.ts';
import { isSettledSql } from '../evidence/commit-order.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import { allocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { buildReleaseRecord, findChangedField, readReleaseFacts } from './release-record.ts';

let store: TestStore;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
});
afterAll(() => store?.close());

/** Running transactions of other databases on the server may withhold rows. */
const untilSettled = () =>
  until('all evidence to settle', async () => {
    const [row] = await store.db.query<{ settled: boolean }>(
      `select bool_and(${isSettledSql}) as settled from evidence`,
    );
    return row?.settled;
  });

async function readRecord(allocation_id: string) {
  const facts = await until('the release to settle', () => readReleaseFacts(store.db, allocation_id));
  const allocation = await allocationRow(store.db, allocation_id);
  if (!allocation) throw new Error('the allocation is gone');
  expect(findChangedField(allocation, facts.changes)).toBeUndefined();
  return buildReleaseRecord(store.db, allocation, facts);
}

test('a release without proof is unproven and lists its residue', async () => {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('released', node);
  await store.db.query(
    `insert into residue (residue_id, driver, kind, resource, allocation_id, why, reason, since)
     values ('res_1', 'external', 'machine', 'rack-7', $1, 'force-release', 'the rack is gone', now())`,
    [allocation_id],
  );
  expect(await readRecord(allocation_id)).toMatchObject({
    release: 'unproven',
    proofs: [],
    residue: [{ residue_id: 'res_1', kind: 'machine', resource: 'rack-7', status: 'open' }],
  });
});

interface Proof {
  workflow_id: string | null;
  layer?: 'provider' | 'node';
}

const buildProof = (allocation_id: AllocationId, node: NodeRow, { workflow_id, layer = 'provider' }: Proof) => ({
  at: fleet.now(),
  layer,
  kind: 'proof.absent' as const,
  summary: 'no such machine',
  data: { by: 'driver' },
  node_instance_id: node.node_instance_id,
  allocation_id,
  workflow_id: workflow_id as WorkflowId | null,
});

/** Records these proofs, then releases an allocation in the operation `op_release`. */
async function releaseAfter(node: NodeRow, proofs: Proof[]): Promise<AllocationId> {
  const { allocation_id } = await fleet.allocation('releasing', node);
  await recordEvidence(
    store.db,
    proofs.map((proof) => buildProof(allocation_id, node, proof)),
  );
  await release(allocation_id, 'op_release');
  return allocation_id;
}

async function release(allocation_id: AllocationId, workflow_id?: string): Promise<void> {
  const move = { allocation_id, to: 'released', by: 'proof', reason: 'test' } as const;
  const [outcome] = await fleet.moveAllocation({
    ...move,
    ...(workflow_id && { workflow_id: workflow_id as WorkflowId }),
  });
  if (!outcome?.moved) throw new Error('the allocation was not released');
}

test('only a proof of the releasing operation makes a release proven', async () => {
  const node = await fleet.node('ready');
  const unproven = await readRecord(await releaseAfter(node, [{ workflow_id: 'op_other' }, { workflow_id: null }]));
  expect(unproven).toMatchObject({ release: 'unproven', proofs: [{ kind: 'absent' }, { kind: 'absent' }] });
  const proven = await readRecord(
    await releaseAfter(node, [{ workflow_id: 'op_other' }, { workflow_id: 'op_release' }]),
  );
  expect(proven.release).toBe('proven');
  expect(proven.proofs.map(({ kind, by, workflow_id }) => ({ kind, by, workflow_id }))).toEqual([
    { kind: 'absent', by: 'driver', workflow_id: 'op_other' },
    { kind: 'absent', by: 'driver', workflow_id: 'op_release' },
  ]);
  expect(proven.instances).toMatchObject([{ node_instance_id: node.node_instance_id, driver: 'external' }]);
  const { allocation_id } = await fleet.allocation('releasing', node);
  await recordEvidence(store.db, [buildProof(allocation_id, node, { workflow_id: null })]);
  await release(allocation_id);
  expect((await readRecord(allocation_id)).release).toBe('unproven');
});

test('facts after the release do not change the certificate', async () => {
  const [node, other] = [await fleet.node('ready'), await fleet.node('ready')];
  const allocation_id = await releaseAfter(node, [{ workflow_id: 'op_other' }]);
  const before = await readRecord(allocation_id);
  const facts = await readReleaseFacts(store.db, allocation_id);
  await recordEvidence(store.db, [
    buildProof(allocation_id, other, { workflow_id: 'op_release' }),
    {
      ...buildProof(allocation_id, other, { workflow_id: 'op_release' }),
      kind: 'allocation.released',
      data: { set: { allocation_id, tenant: 'other' } },
    },
  ]);
  await untilSettled();
  expect(await readRecord(allocation_id)).toEqual(before);
  expect(await readReleaseFacts(store.db, allocation_id)).toEqual(facts);
  expect(before.release).toBe('unproven');
});

test('after thousands of failed attempts, the certificate has the newest proofs and instances', async () => {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('releasing', node);
  await store.db.query(
    `insert into evidence (at, layer, kind, summary, data, allocation_id, node_instance_id, origin)
     select now(), 'rule', 'allocation.release_failed', 'try ' || try,
       jsonb_build_object('set', jsonb_build_object('status', 'release_failed', 'status_since', now())),
       $1, 'ins_0' || try, 'internal'
     from generate_series(1, 2500) as try`,
    [allocation_id],
  );
  const failedProofs = Array.from({ length: 150 }, (_, index) =>
    buildProof(allocation_id, node, { workflow_id: `op_${index}` }),
  );
  await recordEvidence(store.db, [...failedProofs, buildProof(allocation_id, node, { workflow_id: 'op_release' })]);
  await release(allocation_id, 'op_release');
  const record = await readRecord(allocation_id);
  expect(record).toMatchObject({ release: 'proven', tenant: 'acme' });
  expect(record.proofs).toHaveLength(100);
  expect(record.proofs.at(-2)?.workflow_id).toBe('op_149');
  expect(record.proofs.at(-1)?.workflow_id).toBe('op_release');
  expect(record.instances).toMatchObject([{ node_instance_id: node.node_instance_id }]);
  // There is at most one fact per field, regardless of the number of attempts.
  const facts = await readReleaseFacts(store.db, allocation_id);
  expect(facts?.changes.length).toBeLessThan(10);
});

test('ignores proofs posted from outside, and names the changed field of a row', async () => {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('releasing', node);
  await store.db.query(
    `insert into evidence (at, layer, kind, summary, data, allocation_id, workflow_id, origin)
     select now(), layer, 'proof.absent', 'gone', '{}', $1, 'op_release', origin
     from unnest(array['provider', 'node'], array['person', 'node']) as posted(layer, origin)`,
    [allocation_id],
  );
  await release(allocation_id, 'op_release');
  expect(await readRecord(allocation_id)).toMatchObject({ release: 'unproven', proofs: [] });
  const facts = await until('the release to settle', () => readReleaseFacts(store.db, allocation_id));
  const row = await allocationRow(store.db, allocation_id);
  if (!row) throw new Error('the allocation is gone');
  expect(findChangedField({ ...row, tenant: 'other' }, facts.changes)).toBe('tenant');
  expect(findChangedField({ ...row, released_at: null }, facts.changes)).toBe('released_at');
});

test('the digest of a spec does not depend on the values of variables or the text of scripts', async () => {
  const digestWith = async (env: Record<string, string>, scripts: object = {}) => {
    await store.db.query(`update pool_generations set document = document || $1 where pool = 'test'`, [
      { spec: { image: 'img:1', env, ...scripts } },
    ]);
    const node = await fleet.node('ready');
    const { allocation_id } = await fleet.allocation('releasing', node);
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
    await release(allocation_id);
    const { instances } = await readRecord(allocation_id);
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
