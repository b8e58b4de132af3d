/** A secret that equals a status or a column name damages no row or fact. Free text is redacted. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { redactionMark } from '../../base/redaction/redact.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { readTimeline, recordEvidence, recordOutsideFacts } from '../evidence/evidence.ts';
import { rebuildAllocations, rebuildNodes } from '../history/projection.ts';
import { queueOperations } from '../operations/queue-operation.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';

let store: TestStore;
let fleet: Fleet;
const hidden = 'quartz~meadow~77~plum';

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  store.db.redact.learn([
    ...[
      'internal',
      'operator',
      'workflow',
      'allocation',
      'provisioning',
      'releasing',
      'status_since',
      'correlation_id',
    ],
    hidden,
  ]);
});
afterAll(() => store.close());

test('rows keep their status and stay equal to their facts', async () => {
  const { db } = store;
  const node = await fleet.node('ready');
  const allocation = await fleet.allocation('active', node, 'tenant-of-allocation');
  const { allocation_id } = allocation;
  await fleet.moveAllocation({ allocation_id, to: 'releasing', by: 'release', reason: `done with ${hidden}` });
  const [row] = await db.query<{ status: string; tenant: string; reason: string }>(
    'select * from allocations where allocation_id = $1',
    [allocation_id],
  );
  expect(row).toMatchObject({
    status: 'releasing',
    tenant: 'tenant-of-allocation',
    reason: `done with ${redactionMark}`,
  });
  expect(await rebuildAllocations(db, [allocation_id])).toEqual([row]);
  const nodes = await db.query('select * from nodes where node_id = $1', [node.node_id]);
  expect(await rebuildNodes(db, [node.node_id])).toEqual(nodes);
});

test('an operation keeps its kind, ids and fields', async () => {
  const { db } = store;
  const workflow_id = 'wf_allocation_internal' as never;
  await db.transaction((tx) =>
    queueOperations(
      tx,
      [
        {
          workflow_id,
          kind: 'allocation.release',
          revision: 1,
          tenant: 'internal',
          correlation_id: 'corr_allocation' as never,
          actor: { kind: 'operator', id: 'tok_allocation', name: `Ann ${hidden}` },
          params: { allocation: 'x', reason: hidden },
          steps: [{ name: 'allocation', label: 'allocation', usual_seconds: null, within_seconds: null }],
        },
      ],
      fleet.now(),
    ),
  );
  const [row] = await db.query(
    'select kind, tenant, correlation_id, actor, params from operations where workflow_id = $1',
    [workflow_id],
  );
  expect(row).toEqual({
    kind: 'allocation.release',
    tenant: 'internal',
    correlation_id: 'corr_allocation',
    actor: { kind: 'operator', id: 'tok_allocation', name: `Ann ${redactionMark}` },
    params: { allocation: 'x', reason: redactionMark },
  });
});

test('a fact keeps its columns and the names of its fields', async () => {
  const { db } = store;
  await recordEvidence(db, [
    {
      at: fleet.now(),
      layer: 'operator',
      kind: 'allocation.amended' as never,
      summary: `about ${hidden}`,
      data: { operator: 1, correlation_id: hidden, [hidden]: true },
      actor: { kind: 'operator', id: 'operator', name: hidden },
      correlation_id: 'internal' as never,
    },
  ]);
  const items = await until('the fact', async () => {
    const read = await readTimeline(db, { visibility: wholeFleet, correlation_id: 'internal', limit: 1 });
    return read.items.length > 0 ? read.items : undefined;
  });
  expect(items).toMatchObject([
    {
      layer: 'operator',
      origin: 'internal',
      kind: 'allocation.amended',
      summary: `about ${redactionMark}`,
      data: { operator: 1, correlation_id: redactionMark, [redactionMark]: true },
      actor: { kind: 'operator', id: 'operator', name: redactionMark },
    },
  ]);
});

test.for(['node', 'person'] as const)('`set` in a fact of a %s is redacted like all of its data', async (origin) => {
  const { db } = store;
  const kind = `app.saved_by_${origin}`;
  const set = { note: `with ${hidden}`, nested: { password: 'x', list: [hidden] } };
  await recordOutsideFacts(db, origin, [{ at: fleet.now(), layer: 'node', kind, summary: 'saved', data: { set } }]);
  const items = await until('the fact', async () => {
    const read = await readTimeline(db, { visibility: wholeFleet, kind, limit: 1 });
    return read.items.length > 0 ? read.items : undefined;
  });
  expect(items[0]?.data).toEqual({
    set: { note: `with ${redactionMark}`, nested: { password: redactionMark, list: [redactionMark] } },
  });
});

test('`set` in a fact of the server that describes no row is redacted like all of its data', async () => {
  const { db } = store;
  await recordEvidence(db, [
    {
      at: fleet.now(),
      layer: 'provider',
      kind: 'proof.absent',
      summary: 'gone',
      data: { set: { note: hidden } },
      correlation_id: 'corr_reported_set' as never,
    },
  ]);
  const items = await until('the fact', async () => {
    const read = await readTimeline(db, { visibility: wholeFleet, correlation_id: 'corr_reported_set', limit: 1 });
    return read.items.length > 0 ? read.items : undefined;
  });
  expect(items[0]?.data).toEqual({ set: { note: redactionMark } });
});
