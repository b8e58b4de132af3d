/** A stream reader gets only the facts that it may see, and each page scans a bounded number. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { tenantOnly, wholeFleet } from '../../lifecycle/visibility.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { type Cursor, readHeadCursor } from './commit-order.ts';
import { readVisibleAfter, recordEvidence, type VisibleEvidenceFilter } from './evidence.ts';

let store: TestStore;
let fleet: Fleet;
let start: Cursor;
const allocations: Record<string, AllocationRow> = {};
const rounds = 30;
const factsPerRound = 40;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  for (const tenant of ['acme', 'globex']) allocations[tenant] = await fleet.allocation('requested', null, tenant);
  // The head is the last settled fact. Running transactions of other tests may withhold facts.
  start = await until('the facts of the setup to be settled', async () => {
    const head = await readHeadCursor(store.db);
    const [last] = await store.db.query<{ seq: string }>('select max(seq)::text as seq from evidence');
    return head.seq === last?.seq ? head : undefined;
  });
  // In each round one fact belongs to acme, ten to globex, and 29 to no tenant.
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
    async () => (await readAll({ visibility: wholeFleet }, 5_000)).owners.length === factsPerRound * rounds,
  );
});
afterAll(() => store.close());

async function readAll(filter: VisibleEvidenceFilter, limit: number) {
  const owners: string[] = [];
  const seenRounds: unknown[] = [];
  let pages = 0;
  for (let cursor = start; ; pages++) {
    const { items, reached, more } = await readVisibleAfter(store.db, cursor, filter, limit);
    expect(items.length).toBeLessThanOrEqual(limit);
    for (const { data } of items) {
      owners.push(String(data.owner));
      seenRounds.push(data.round);
    }
    cursor = reached;
    if (!more) return { owners, seenRounds, pages: pages + 1, reached };
  }
}

test.for([5, 50, 5_000])(
  'pages of %s return every fact of the tenant in order, and no fact of another',
  async (limit) => {
    for (const [tenant, perRound] of [
      ['acme', 1],
      ['globex', 10],
    ] as const) {
      const { owners, seenRounds } = await readAll({ visibility: tenantOnly(tenant) }, limit);
      expect(new Set(owners)).toEqual(new Set([tenant]));
      expect(owners).toHaveLength(perRound * rounds);
      expect(seenRounds).toEqual(seenRounds.toSorted((a, b) => Number(a) - Number(b)));
    }
    expect((await readAll({ visibility: wholeFleet }, limit)).owners).toHaveLength(factsPerRound * rounds);
  },
);

test('the last page ends at the head, even if its last facts are invisible', async () => {
  const head = await readHeadCursor(store.db);
  expect((await readAll({ visibility: tenantOnly('acme') }, 50)).reached).toEqual(head);
  expect(await readVisibleAfter(store.db, head, { visibility: tenantOnly('acme') }, 50)).toEqual({
    ...{ items: [], reached: head, more: false },
  });
});

test('a page scans at most four facts per item for a tenant without facts', async () => {
  const limit = 5;
  const { pages } = await readAll({ visibility: tenantOnly('without-facts') }, limit);
  expect(pages).toBe((factsPerRound * rounds) / (4 * limit) + 1);
});

test('filtering by an allocation of another tenant returns nothing', async () => {
  const allocation_id = allocations.globex?.allocation_id ?? '';
  expect((await readAll({ visibility: tenantOnly('acme'), allocation_id }, 50)).owners).toEqual([]);
  expect((await readAll({ visibility: tenantOnly('globex'), allocation_id }, 50)).owners).toHaveLength(10 * rounds);
  expect((await readAll({ visibility: wholeFleet, allocation_id }, 50)).owners).toHaveLength(10 * rounds);
});
