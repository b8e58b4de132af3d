/**
 * A stream reader gets only facts that it may see, and a page costs the same however few these are.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { tenantOnly, wholeFleet } from '../../lifecycle/visibility.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { type Cursor, headCursor, readVisibleAfter, recordEvidence, type StreamFilter } from './evidence.ts';

let store: TestStore;
let fleet: Fleet;
let start: Cursor;
const allocations: Record<string, AllocationRow> = {};
const rounds = 30;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  for (const tenant of ['acme', 'globex']) allocations[tenant] = await fleet.allocation('requested', null, tenant);
  // The head is the last settled fact; any open transaction on the server may withhold facts.
  start = await until('the facts of the set-up to be settled', async () => {
    const head = await headCursor(store.db);
    const [last] = await store.db.query<{ seq: string }>('select max(seq)::text as seq from evidence');
    return head.seq === last?.seq ? head : undefined;
  });
  // Of forty facts, one belongs to acme, ten to globex, and the rest to no tenant.
  for (let round = 0; round < rounds; round++) {
    const owners = [...Array(1).fill('acme'), ...Array(10).fill('globex'), ...Array(29).fill(null)];
    await recordEvidence(
      store.db,
      owners.map((owner) => ({
        ...{ at: fleet.now(), layer: 'workflow', kind: 'node.explained', summary: 'x', data: { owner, round } },
        allocation_id: allocations[owner]?.allocation_id ?? null,
      })),
    );
  }
  await until(
    'every fact to be settled',
    async () => (await readAll({ visibility: wholeFleet }, 5_000)).read.length === 40 * rounds,
  );
});
afterAll(() => store.close());

async function readAll(visible: StreamFilter, limit: number) {
  const read: string[] = [];
  const rounds: unknown[] = [];
  let pages = 0;
  for (let cursor = start; ; pages++) {
    const { items, reached, more } = await readVisibleAfter(store.db, cursor, visible, limit);
    expect(items.length).toBeLessThanOrEqual(limit);
    for (const { data } of items) {
      read.push(String(data.owner));
      rounds.push(data.round);
    }
    cursor = reached;
    if (!more) return { read, rounds, pages: pages + 1, reached };
  }
}

test.for([5, 50, 5_000])('returns every fact of the tenant, in order, and no other, in pages of %s', async (limit) => {
  for (const [tenant, each] of [
    ['acme', 1],
    ['globex', 10],
  ] as const) {
    const { read, rounds: seen } = await readAll({ visibility: tenantOnly(tenant) }, limit);
    expect(new Set(read)).toEqual(new Set([tenant]));
    expect(read).toHaveLength(each * rounds);
    expect(seen).toEqual(seen.toSorted((a, b) => Number(a) - Number(b)));
  }
  expect((await readAll({ visibility: wholeFleet }, limit)).read).toHaveLength(40 * rounds);
});

test('ends at the head even if the last facts are invisible, so a resume reads nothing twice', async () => {
  const head = await headCursor(store.db);
  expect((await readAll({ visibility: tenantOnly('acme') }, 50)).reached).toEqual(head);
  expect(await readVisibleAfter(store.db, head, { visibility: tenantOnly('acme') }, 50)).toEqual({
    ...{ items: [], reached: head, more: false },
  });
});

test('scans a bounded number of facts per page for a tenant that has few', async () => {
  const { pages } = await readAll({ visibility: tenantOnly('nobody-of-these') }, 5);
  // A page scans four facts per item.
  expect(pages).toBe((40 * rounds) / 20 + 1);
});

test('filtering by an id reveals nothing of another tenant', async () => {
  const allocation_id = allocations.globex?.allocation_id ?? '';
  expect((await readAll({ visibility: tenantOnly('acme'), allocation_id }, 50)).read).toEqual([]);
  expect((await readAll({ visibility: tenantOnly('globex'), allocation_id }, 50)).read).toHaveLength(10 * rounds);
  expect((await readAll({ visibility: wholeFleet, allocation_id }, 50)).read).toHaveLength(10 * rounds);
});
