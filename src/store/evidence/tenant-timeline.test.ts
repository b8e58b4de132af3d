/** A tenant's timeline of a machine that other tenants use too. */
import { expect, it } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Page } from '../../contract/primitives.ts';
import { tenantOnly } from '../../lifecycle/visibility.ts';
import { areFactsSettled, blockCounter, recordMany } from '../testing/block-counter.ts';
import { testFleet } from '../testing/fleet.ts';
import { parseCursor } from './commit-order.ts';
import { readVisibleTimeline } from './tenant-timeline.ts';

/** Creates a machine that was allocated to acme and to globex. `record` adds facts to it. */
async function createSharedMachine() {
  const store = await testStore({ max_connections: 1 });
  const fleet = await testFleet(store.db);
  const { node_id, node_instance_id } = await fleet.node('ready');
  const [acme, globex] = [
    await fleet.allocation('requested', null, 'acme'),
    await fleet.allocation('requested', null, 'globex'),
  ];
  const ids = [acme.allocation_id, globex.allocation_id];
  await store.db.query('update allocations set node_id = $1 where allocation_id = any($2)', [node_id, ids]);
  const record = (count: number, allocation_id = globex.allocation_id) =>
    recordMany(store.db, count, (index) => ({
      ...{ at: fleet.now(), layer: 'workflow', kind: 'node.explained', summary: 'x'.repeat(200), node_id },
      node_instance_id,
      allocation_id: index % 2 === 0 && allocation_id === globex.allocation_id ? null : allocation_id,
    }));
  const untilSettled = () => until('every fact to be settled', () => areFactsSettled(store.db));
  return { ...store, node_id, node_instance_id, acme, globex, record, untilSettled };
}

it.each(['newest', 'oldest'] as const)(
  'pages return every fact of the tenant, %s first, although some pages are empty',
  async (order) => {
    const { db, close, node_id, node_instance_id, acme, record, untilSettled } = await createSharedMachine();
    try {
      await record(3, acme.allocation_id);
      await record(4_500);
      await record(2, acme.allocation_id);
      await record(2_500);
      await untilSettled();
      for (const subject of [{ node_id }, { node_instance_id: node_instance_id ?? '' }]) {
        const read: Evidence[] = [];
        const sizes: number[] = [];
        for (let cursor: string | null = ''; cursor !== null; ) {
          const at = parseCursor(cursor);
          const filter = { ...subject, order, kind: 'node.explained', limit: 2, ...(at && { cursor: at }) };
          const page: Page<Evidence> = await readVisibleTimeline(db, tenantOnly('acme'), filter);
          read.push(...page.items);
          sizes.push(page.items.length);
          cursor = page.next_cursor;
        }
        expect(read.map(({ allocation_id }) => allocation_id)).toEqual(Array(5).fill(acme.allocation_id));
        const places = read.map(({ cursor }) => Number(cursor.split('-')[1]));
        expect(new Set(places).size).toBe(5);
        expect(places).toEqual(places.toSorted((one, other) => (order === 'newest' ? other - one : one - other)));
        expect(sizes).toContain(0);
        expect(sizes.length).toBeLessThan(10);
      }
    } finally {
      await close();
    }
  },
);

it('reads about as many blocks after 12,000 facts of other tenants as after 3,000', async () => {
  const { db, close, node_id, node_instance_id, record, untilSettled } = await createSharedMachine();
  try {
    const count = blockCounter(db);
    const countBlocks = async (subject: object) => {
      await untilSettled();
      await db.query('analyze evidence');
      return count((counting) => readVisibleTimeline(counting, tenantOnly('acme'), { ...subject, limit: 100 }));
    };
    await record(3_000);
    // The last two filters match no fact.
    const filters = [
      { node_id },
      { node_instance_id },
      { node_id, kind: 'evidence.frozen' },
      { node_id, layer: 'provider' },
    ];
    const countAllBlocks = async () => {
      const blocks: number[] = [];
      for (const each of filters) blocks.push(await countBlocks(each));
      return blocks;
    };
    const blocksOfFew = await countAllBlocks();
    await record(9_000);
    for (const [index, blocks] of (await countAllBlocks()).entries())
      expect(blocks, JSON.stringify(filters[index])).toBeLessThan(1.5 * (blocksOfFew[index] ?? 0));
  } finally {
    await close();
  }
});

it('returns an empty page without a cursor for an allocation or machine of another tenant', async () => {
  const { db, close, globex, node_id, record, untilSettled } = await createSharedMachine();
  try {
    await record(3_000);
    await untilSettled();
    const { allocation_id } = globex;
    const none = { items: [], next_cursor: null };
    expect(await readVisibleTimeline(db, tenantOnly('acme'), { allocation_id, limit: 10 })).toEqual(none);
    expect(await readVisibleTimeline(db, tenantOnly('stranger'), { node_id, limit: 10 })).toEqual(none);
    const count = blockCounter(db);
    const blocks = await count((counting) =>
      readVisibleTimeline(counting, tenantOnly('acme'), { allocation_id, limit: 10 }),
    );
    expect(blocks).toBeLessThan(20);
  } finally {
    await close();
  }
});
