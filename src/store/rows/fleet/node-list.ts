/**
 * Lists nodes. Each combination of filters walks one index; exact matches of the text come first.
 */
import type { Node } from '../../../contract/node.ts';
import type { Page } from '../../../contract/primitives.ts';
import { nodeStatuses } from '../../../lifecycle/model/states.ts';
import type { Visibility } from '../../../lifecycle/visibility.ts';
import type { Queryable } from '../../pg/database.ts';
import {
  type Bind,
  type Direction,
  type PageRequest,
  parameters,
  readWalk,
  toComparison,
  type Walk,
  walkPoolsAndStatuses,
} from '../../pg/walk.ts';
import { heldNodes, mayHoldNode } from '../../visibility.ts';
import { type JoinedRow, nodeWire, selectJoined } from '../nodes.ts';

export interface NodeFilter {
  pool?: string;
  status?: string;
  q?: string;
  held?: boolean;
  ids?: string;
  sort?: 'newest' | 'oldest';
  after?: string;
  limit: number;
  visibility: Visibility;
}

const everyPool = '(select array_agg(name) from pools)';

/** An index to walk, and the filters that the walk itself applies. */
interface IndexChoice {
  applies: (keyof NodeFilter)[];
  rows(filter: NodeFilter, bind: Bind, direction: Direction): Walk['rows'];
}

const afterCursor = ({ after }: NodeFilter, bind: Bind, direction: Direction) =>
  after === undefined ? '' : `and node_id ${toComparison(direction)} ${bind(after)}`;

const byId =
  (condition: (filter: NodeFilter, bind: Bind) => string): IndexChoice['rows'] =>
  (filter, bind, direction) => {
    const where = `${condition(filter, bind)} ${afterCursor(filter, bind, direction)}`;
    return (maxRows) => `
      select * from nodes
      where ${where}
      order by node_id ${direction}
      limit ${maxRows}`;
  };

const indexes = {
  ids: { applies: ['ids'], rows: byId(({ ids = '' }, bind) => `node_id = any(${bind(ids.split(','))})`) },
  held: { applies: ['held'], rows: byId(() => 'held is not null') },
  poolAndStatus: {
    applies: ['pool', 'status'],
    rows: (filter, bind, direction) =>
      walkPoolsAndStatuses({
        table: 'nodes',
        key: 'node_id',
        pools: filter.pool === undefined ? everyPool : `${bind([filter.pool])}::text[]`,
        statuses: `${bind(filter.status === undefined ? Object.keys(nodeStatuses) : [filter.status])}::text[]`,
        after: afterCursor(filter, bind, direction),
        direction,
      }),
  },
  all: { applies: [], rows: byId(() => 'true') },
} satisfies Record<string, IndexChoice>;

/**
 * Walks the nodes that the tenant's allocations may hold; `heldNodes` then checks the holder of
 * each.
 */
const indexOfTenant = (tenant: string): IndexChoice => ({
  applies: [],
  rows(filter, bind, direction) {
    const where = `${mayHoldNode(bind(tenant))} ${afterCursor(filter, bind, direction)}`;
    return (maxRows) => `
      select nodes.* from (
        select distinct node_id from allocations
        where ${where}
        order by node_id ${direction}
        limit ${maxRows}
      ) own
      join nodes using (node_id)`;
  },
});

function indexFor({ ids, visibility, held, pool, status, q }: NodeFilter): IndexChoice {
  if (ids !== undefined) return indexes.ids;
  if (visibility.kind !== 'fleet') return indexOfTenant(visibility.tenant);
  if (held) return indexes.held;
  // With a search text, a status alone would make the walk scan that status in every pool.
  return pool !== undefined || (status !== undefined && q === undefined) ? indexes.poolAndStatus : indexes.all;
}

const matchesExactly = (text: string) =>
  `(node.name = ${text} or node.node_id = ${text} or node.node_instance_id = ${text})`;

/** Conditions on `node` for filters that the index does not apply. */
const conditions: { [K in keyof NodeFilter]?: (value: NonNullable<NodeFilter[K]>, bind: Bind) => string } = {
  pool: (pool, bind) => `node.pool = ${bind(pool)}`,
  status: (status, bind) => `node.status = ${bind(status)}`,
  held: (held) => `node.held is ${held ? 'not null' : 'null'}`,
  ids: (ids, bind) => `node.node_id = any(${bind(ids.split(','))})`,
};

const idCharacters = /^[0-9a-z_]+$/;

/**
 * Names and ids are lower case. Text that no id can contain is searched in names only, which is
 * cheaper.
 */
const containsText = (q: string, bind: Bind): string => {
  const lower = q.toLowerCase();
  const like = bind(`%${lower.replace(/[\\%_]/g, '\\$&')}%`);
  const columns = idCharacters.test(lower) ? ['name', 'node_id', 'node_instance_id'] : ['name'];
  return `(${columns.map((column) => `node.${column} like ${like}`).join(' or ')})`;
};

function conditionsOf(filter: NodeFilter, bind: Bind, applied: (keyof NodeFilter)[] = []): string[] {
  const names = Object.keys(conditions) as (keyof typeof conditions)[];
  const wanted = names.flatMap((name) => {
    const value = filter[name];
    const condition = conditions[name] as ((value: unknown, bind: Bind) => string) | undefined;
    return value === undefined || !condition || applied.includes(name) ? [] : [condition(value, bind)];
  });
  return [...wanted, ...heldNodes(filter.visibility, bind)];
}

/**
 * Finds live nodes by the index on (pool, name), and retired nodes by another index. $1 is the
 * search text.
 */
const exactIds = `
  select node_id
  from pools pool
  join nodes on nodes.pool = pool.name and nodes.name = $1 and nodes.status <> 'retired'
  union
  select node_id from nodes
  where name = $1
    and status = 'retired'
  union
  select node_id from nodes
  where node_id = $1
  union
  select node_id from instances
  where node_instance_id = $1`;

/** The prefix of a cursor at which more exact matches follow. */
const exactPrefix = 'meant_';

/**
 * The node after which the exact matches continue; empty on the first page. Undefined if there are
 * no more exact matches, or no search text.
 */
function exactCursor({ q, after }: NodeFilter): string | undefined {
  if (q === undefined) return undefined;
  if (after === undefined) return '';
  return after.startsWith(exactPrefix) ? after.slice(exactPrefix.length) : undefined;
}

/** Reads the exact matches, up to one more than the page has room for. */
async function readExactMatches(
  db: Queryable,
  filter: NodeFilter,
  cursor: string,
  direction: Direction,
): Promise<JoinedRow[]> {
  const { values, bind } = parameters();
  const where = [matchesExactly(bind(filter.q)), ...conditionsOf(filter, bind)];
  if (cursor !== '') where.push(`node.node_id ${toComparison(direction)} ${bind(cursor)}`);
  return db.query<JoinedRow>(
    `${selectJoined(`(select * from nodes where node_id in (${exactIds})) node`)}
     where ${where.join(' and ')}
     order by node.node_id ${direction}
     limit ${filter.limit + 1}`,
    values,
  );
}

/** Cursors that come before every node id, in any collation. */
const startCursors: Record<Direction, string> = { desc: 'zz', asc: 'a' };

export async function listNodes(db: Queryable, filter: NodeFilter): Promise<Page<Node>> {
  const direction: Direction = filter.sort === 'oldest' ? 'asc' : 'desc';
  // Exact matches come first, and the walk below leaves them out.
  const cursor = exactCursor(filter);
  const exact = cursor === undefined ? [] : await readExactMatches(db, filter, cursor, direction);
  if (exact.length >= filter.limit) {
    const items = exact.slice(0, filter.limit).map(nodeWire);
    const hasMore = exact.length > filter.limit;
    return { items, next_cursor: hasMore ? `${exactPrefix}${items.at(-1)?.node_id}` : startCursors[direction] };
  }
  const { after: _, ...fromStart } = filter;
  const { rows, next_cursor } = await walkNodes(db, cursor === undefined ? filter : fromStart, direction, exact.length);
  return { items: [...exact, ...rows].map(nodeWire), next_cursor };
}

/** Fills a page that already has `exactCount` items with matches that are not exact. */
function walkNodes(db: Queryable, filter: NodeFilter, direction: Direction, exactCount: number) {
  const index = indexFor(filter);
  const { values, bind } = parameters();
  const walk: Walk = { table: 'node', key: 'node_id', rows: index.rows(filter, bind, direction), values };
  const more = parameters(values.length);
  const where = conditionsOf(filter, more.bind, index.applies);
  if (filter.q !== undefined)
    where.push(containsText(filter.q, more.bind), `not ${matchesExactly(more.bind(filter.q))}`);
  const wanted: PageRequest = { where, values: more.values, direction, limit: filter.limit - exactCount };
  return readWalk<JoinedRow>(db, walk, wanted, selectJoined);
}
