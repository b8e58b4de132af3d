/** Runs each read for the fleet, the tenant of a row, another tenant and an invalid visibility. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testStore } from '../../test/support/store.ts';
import { until } from '../../test/support/until.ts';
import { canSee, tenantOnly, type Visibility, wholeFleet } from '../lifecycle/visibility.ts';
import { findMisplacedIds } from './agents/outside-fact-ids.ts';
import { startCursor } from './evidence/commit-order.ts';
import { readVisibleAfter } from './evidence/evidence.ts';
import { readVisibleTimeline } from './evidence/tenant-timeline.ts';
import { listOperations, readOperations } from './operations/operations.ts';
import { queueOperation } from './operations/queue-operation.ts';
import { type AllocationRow, listAllocations, readAllocations, readHolder } from './rows/allocations.ts';
import { resolveId } from './rows/find.ts';
import { readFleet } from './rows/fleet/fleet.ts';
import { listNodes } from './rows/fleet/node-list.ts';
import { isKnownNode, type NodeRow, readNode, readNodes } from './rows/nodes.ts';
import { areFactsSettled } from './testing/block-counter.ts';
import { type Fleet, testFleet } from './testing/fleet.ts';

let store: Awaited<ReturnType<typeof testStore>>;
let fleet: Fleet;
let node: NodeRow;
let own: AllocationRow;
const workflow_id = 'wf_of_acme' as never;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  node = await fleet.node('ready');
  await store.db.query('update nodes set name = $1', ['machine-1']);
  node = { ...node, name: 'machine-1' };
  own = await fleet.allocation('active', node, 'acme');
  const { allocation_id, correlation_id } = own;
  const fresh = { workflow_id, allocation_id, correlation_id, tenant: 'acme', kind: 'node-provision', revision: 1 };
  const queued = { ...fresh, actor: null, params: {}, steps: [] };
  await store.db.transaction((tx) => queueOperation(tx, queued, fleet.now()));
  await until('every fact to be settled', () => areFactsSettled(store.db));
});
afterAll(() => store.close());

/** Each function returns the number of rows that its read finds. */
const reads: Record<string, (visibility: Visibility) => Promise<number>> = {
  readNode: async (visibility) => ((await readNode(store.db, node.node_id, visibility)) ? 1 : 0),
  readNodes: async (visibility) => (await readNodes(store.db, [node.node_id], visibility)).length,
  isKnownNode: async (visibility) => ((await isKnownNode(store.db, node.node_id, visibility)) ? 1 : 0),
  listNodes: async (visibility) => (await listNodes(store.db, { visibility, limit: 10 })).items.length,
  'listNodes by id': async (visibility) =>
    (await listNodes(store.db, { visibility, ids: node.node_id, limit: 10 })).items.length,
  'listNodes by name': async (visibility) =>
    (await listNodes(store.db, { visibility, q: node.name, limit: 10 })).items.length,
  readFleet: async (visibility) => {
    const page = await readFleet(store.db, { visibility, after: undefined, limit: 10 });
    return page.node_ids.length;
  },
  readAllocations: async (visibility) =>
    (await readAllocations(store.db, [own.allocation_id], visibility, fleet.now())).length,
  readHolder: async (visibility) => ((await readHolder(store.db, own.allocation_id, visibility)) ? 1 : 0),
  listAllocations: async (visibility) =>
    (await listAllocations(store.db, { visibility, limit: 10 }, fleet.now())).items.length,
  readOperations: async (visibility) => (await readOperations(store.db, [workflow_id], visibility, fleet.now())).length,
  listOperations: async (visibility) =>
    (await listOperations(store.db, { visibility, kind: 'node-provision', limit: 10 }, fleet.now())).items.length,
  'listOperations of an allocation': async (visibility) => {
    const filter = { visibility, allocation_id: own.allocation_id, limit: 10 };
    return (await listOperations(store.db, filter, fleet.now())).items.length;
  },
  'resolveId by correlation id': async (visibility) =>
    (await resolveId(store.db, own.correlation_id, visibility)).allocations.length,
  'resolveId by name': async (visibility) => (await resolveId(store.db, node.name, visibility)).nodes.length,
  'readVisibleTimeline of an allocation': async (visibility) =>
    (await readVisibleTimeline(store.db, visibility, { allocation_id: own.allocation_id, limit: 1 })).items.length,
  'readVisibleTimeline of a node': async (visibility) =>
    (await readVisibleTimeline(store.db, visibility, { node_id: node.node_id, limit: 1 })).items.length,
  readVisibleAfter: async (visibility) =>
    (await readVisibleAfter(store.db, startCursor, { visibility, allocation_id: own.allocation_id }, 1)).items.length,
  findMisplacedIds: async (visibility) => {
    const fact = { layer: 'operator', kind: 'deploy.done', summary: 'x', allocation_id: own.allocation_id } as const;
    return 1 - (await findMisplacedIds(store.db, [fact], visibility)).length;
  },
};

describe.for(Object.keys(reads))('%s', (name) => {
  const read = async (visibility: Visibility) => reads[name]?.(visibility);

  test('returns a row only to its tenant and to a fleet-wide caller', async () => {
    expect(await read(wholeFleet)).toBe(1);
    expect(await read(tenantOnly('acme'))).toBe(1);
    expect(await read(tenantOnly('globex'))).toBe(0);
  });

  test('returns nothing without a tenant, and throws without a visibility', async () => {
    expect(await read({ kind: 'tenant' } as Visibility)).toBe(0);
    expect(await read({ kind: 'tenant', tenant: null } as never)).toBe(0);
    expect(await read({} as Visibility)).toBe(0);
    await expect(read(undefined as never)).rejects.toThrow();
    await expect(read(null as never)).rejects.toThrow();
  });
});

test('a row without a tenant is visible only to a fleet-wide caller', () => {
  expect(canSee(wholeFleet, null)).toBe(true);
  expect(canSee(tenantOnly('acme'), 'acme')).toBe(true);
  expect(canSee(tenantOnly('acme'), 'globex')).toBe(false);
  expect(canSee(tenantOnly('acme'), null)).toBe(false);
});
