/** Paging through a list with any filter returns each matching row once, in order. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { moment } from '../../../base/clock.ts';
import { tenantOnly, type Visibility, wholeFleet } from '../../../lifecycle/visibility.ts';
import { listOperations, type OperationFilter } from '../../operations/operations.ts';
import type { Database } from '../../pg/database.ts';
import { readWalk } from '../../pg/walk.ts';
import { type AllocationFilter, listAllocations } from '../allocations.ts';
import { declarePool } from '../pools.ts';
import { listNodes, type NodeFilter } from './node-list.ts';

let store: TestStore;
let db: Database;
const start = moment(Date.UTC(2030, 0, 1));
const size = 120;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  for (const pool of ['a', 'b', 'c'])
    await db.transaction((tx) => declarePool(tx, pool, { driver: 'external' }, start));
  const fill = (text: string) => db.query(text, [start]);
  const id = `lpad(i::text, 4, '0')`;
  // Each name occurs about twice, and some names contain others.
  await fill(
    `insert into nodes (
       node_id, pool, pool_generation, name, status, status_since, node_instance_id, held, created_at)
     select 'node_' || ${id}, (array['a', 'b', 'c'])[1 + i / 50], 1,
       'web-' || i % 60 || case when i % 7 = 0 then '_x' else '' end,
       (array['ready', 'offline', 'retired', 'failed'])[1 + i % 4], $1, 'inst_' || ${id},
       case when i % 11 = 0 then '{"rule": "liveness", "kind": "mass-failure"}'::jsonb end, $1
     from generate_series(0, ${size - 1}) as i`,
  );
  await fill(
    `insert into instances (node_instance_id, node_id, attempt, created_at)
     select 'inst_' || ${id}, 'node_' || ${id}, 1, $1
     from generate_series(0, ${size - 1}) as i`,
  );
  await fill(
    `insert into allocations (
       allocation_id, pool, node_id, tenant, name, status, status_since, labels, correlation_id, created_at)
     select 'alloc_' || ${id}, (array['a', 'b', 'c'])[1 + i / 50], 'node_' || ${id},
       (array['acme', 'globex'])[1 + i % 2], 'job',
       (array['active', 'released', 'failed', 'releasing'])[1 + i / 3 % 4], $1,
       jsonb_build_object('team', i % 5), 'c', $1
     from generate_series(0, ${size - 1}) as i`,
  );
  await fill(
    `insert into operations (
       workflow_id, kind, revision, status, node_id, allocation_id, tenant, correlation_id, created_at)
     select 'op_' || ${id}, (array['node-provision', 'allocation-release'])[1 + i % 2], 1,
       (array['queued', 'failed', 'succeeded'])[1 + i % 3],
       'node_' || lpad((i % 10)::text, 4, '0'), 'alloc_' || ${id},
       (array['acme', 'globex'])[1 + i / 2 % 2], 'c', $1
     from generate_series(0, ${size - 1}) as i`,
  );
});
afterAll(() => store.close());

/** Reads all pages, and returns the ids of their items. */
async function readAllPages(
  read: (after?: string) => Promise<{ items: string[]; next_cursor: string | null }>,
  limit: number,
) {
  const ids: string[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next_cursor } = await read(after);
    expect(items.length).toBeLessThanOrEqual(limit);
    ids.push(...items);
    if (next_cursor === null) return ids;
    after = next_cursor;
  }
}

const optional = <T>(...values: T[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
const withoutUndefined = <T extends object>(filter: T): T =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)) as T;
const limit = fc.integer({ min: 1, max: 50 });
const visibility = fc.constantFrom<Visibility>(
  wholeFleet,
  wholeFleet,
  tenantOnly('acme'),
  tenantOnly('globex'),
  tenantOnly('nobody'),
);
const tenantOf = ({ visibility }: { visibility: Visibility }) =>
  visibility.kind === 'tenant' ? visibility.tenant : null;
const readIds = async (text: string, values: unknown[]) =>
  (await db.query<{ id: string }>(text, values)).map((row) => row.id);

const searchTexts = ['web-1', 'WEB-5', '_x', 'st_001', 'node_0007', 'inst_0033', 'web-14_x', '%', 'nowhere'];

const nodeFilter = fc.record({
  pool: optional('a', 'b', 'none'),
  status: optional('ready', 'retired', 'starting'),
  q: optional(...searchTexts),
  held: optional(true, false),
  sort: optional<'newest' | 'oldest'>('newest', 'oldest'),
  ids: optional('node_0003', 'node_0001,node_0005,node_0100'),
  limit,
  visibility,
});

/** Compares all pages with one plain statement. */
async function expectSameNodes(filter: NodeFilter): Promise<void> {
  const read = async (after?: string) => {
    const page = await listNodes(db, { ...filter, ...(after !== undefined && { after }) });
    return { ...page, items: page.items.map(({ node_id }) => node_id) };
  };
  const { pool, status, q, held, ids } = filter;
  const direction = filter.sort === 'oldest' ? 'asc' : 'desc';
  const expected = await readIds(
    `select node_id as id
     from nodes node
     where ($1::text is null or pool = $1)
       and ($2::text is null or status = $2)
       and (
         $3::text is null
         or strpos(lower(name), lower($3)) > 0
         or strpos(node_id, lower($3)) > 0
         or strpos(node_instance_id, lower($3)) > 0
       )
       and ($4::boolean is null or (held is not null) = $4)
       and ($5::text[] is null or node_id = any($5))
       and ($6::text is null or exists (
         select from allocations
         where node_id = node.node_id
           and tenant = $6
           and (status in ('active', 'releasing') or (status = 'failed' and node.status = 'failed'))
       ))
     order by coalesce($3 in (name, node_id, node_instance_id), false) desc, node_id ${direction}`,
    [pool, status, q, held, ids?.split(','), tenantOf(filter)].map((each) => each ?? null),
  );
  expect(await readAllPages(read, filter.limit)).toEqual(expected);
}

test('paging through nodes with any filter returns the rows of one plain statement', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(nodeFilter, (filter) => expectSameNodes(withoutUndefined(filter))),
    { numRuns: 150 },
  );
});

// The test above combines filters, which mostly match nothing, so each text is tested alone too.
// With a limit of 1, the exact matches, which come first, span several pages.
test.for(searchTexts)(
  'paging through nodes with only the search text %s returns the rows of one plain statement',
  async (q) => {
    for (const limit of [1, 50]) await expectSameNodes({ q, limit, visibility: wholeFleet });
  },
);

test('paging through allocations and operations with any filter returns the rows of one statement', {
  timeout: 60_000,
}, async () => {
  const filters = fc.record({
    allocations: fc.record({
      pool: optional('a', 'c'),
      status: optional('active', 'requested'),
      label: optional('team=3'),
      limit,
      visibility,
    }),
    operations: fc.record({
      ...{ kind: optional('node-provision', 'x'), status: optional('failed', 'running'), limit, visibility },
      ...{ node_id: optional('node_0004'), allocation_id: optional('alloc_0010') },
    }),
  });
  await fc.assert(
    fc.asyncProperty(filters, async ({ allocations, operations }) => {
      const allocationFilter: AllocationFilter = withoutUndefined(allocations);
      const readAllocations = async (after?: string) => {
        const page = await listAllocations(db, { ...allocationFilter, ...(after !== undefined && { after }) }, start);
        return { ...page, items: page.items.map(({ allocation_id }) => allocation_id as string) };
      };
      expect(await readAllPages(readAllocations, allocationFilter.limit)).toEqual(
        await readIds(
          `select allocation_id as id
           from allocations
           where ($1::text is null or pool = $1)
             and ($2::text is null or status = $2)
             and ($3::text is null or labels ->> 'team' = split_part($3, '=', 2))
             and ($4::text is null or tenant = $4)
           order by 1 desc`,
          [allocationFilter.pool, allocationFilter.status, allocationFilter.label, tenantOf(allocationFilter)].map(
            (each) => each ?? null,
          ),
        ),
      );
      const operationFilter: OperationFilter = withoutUndefined(operations);
      const readOperations = async (after?: string) => {
        const page = await listOperations(db, { ...operationFilter, ...(after !== undefined && { after }) }, start);
        return { ...page, items: page.items.map(({ workflow_id }) => workflow_id as string) };
      };
      expect(await readAllPages(readOperations, operationFilter.limit)).toEqual(
        await readIds(
          `select workflow_id as id
           from operations
           where ($1::text is null or kind = $1)
             and ($2::text is null or status = $2)
             and ($3::text is null or node_id = $3)
             and ($4::text is null or allocation_id = $4)
             and ($5::text is null or tenant = $5)
           order by 1 desc`,
          [
            operationFilter.kind,
            operationFilter.status,
            operationFilter.node_id,
            operationFilter.allocation_id,
            tenantOf(operationFilter),
          ].map((each) => each ?? null),
        ),
      );
    }),
    { numRuns: 60 },
  );
});

test('a page scans a bounded number of rows, and the next page continues after the last one scanned', async () => {
  let reads = 0;
  const read = async (after = 'zz') => {
    reads++;
    const walk = {
      ...{ table: 'node', key: 'node_id', values: [after] },
      rows: (maxRows: number) => `select * from nodes where node_id < $1 order by node_id desc limit ${maxRows}`,
    };
    const wanted = {
      where: ['node.held is not null'],
      values: [],
      direction: 'desc',
      limit: 50,
      max_scanned: 7,
    } as const;
    const page = await readWalk<{ node_id: string }>(db, walk, wanted, (from) => `select * from ${from}`);
    return { ...page, items: page.rows.map(({ node_id }) => node_id) };
  };
  const held = await readIds('select node_id as id from nodes where held is not null order by 1 desc', []);
  expect(await readAllPages(read, 50)).toEqual(held);
  expect(reads).toBe(Math.floor(size / 7) + 1);
});
