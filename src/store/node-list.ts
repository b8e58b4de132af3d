/** The list of nodes: whichever way is asked, one index is walked, and a name or an id that is meant exactly is found at once. */
import type { Node } from '../contract/node.ts';
import type { Page } from '../contract/primitives.ts';
import { nodeStatuses } from '../lifecycle/states.ts';
import type { Queryable } from './database.ts';
import { heldByTenant, type JoinedRow, joinedTo, nodeWire, type Tenancy } from './nodes.ts';
import { alongPoolsAndStatuses, beyond, type Direction, parameters, readWalk, type Walk, type Wanted } from './walk.ts';

export interface NodeFilter {
  pool?: string;
  status?: string;
  q?: string;
  held?: boolean;
  ids?: string;
  sort?: 'newest' | 'oldest';
  after?: string;
  limit: number;
  tenant: Tenancy;
}

const everyPool = '(select array_agg(name) from pools)';

/** Where the walk goes, and which conditions it answers by itself. */
interface Way {
  answers: (keyof NodeFilter)[];
  rows(filter: NodeFilter, bind: (value: unknown) => string, direction: Direction): Walk['rows'];
}

const after = ({ after: place }: NodeFilter, bind: (value: unknown) => string, direction: Direction) =>
  place === undefined ? '' : `and node_id ${beyond(direction)} ${bind(place)}`;

const simply =
  (condition: (filter: NodeFilter, bind: (value: unknown) => string) => string): Way['rows'] =>
  (filter, bind, direction) => {
    const where = `${condition(filter, bind)} ${after(filter, bind, direction)}`;
    return (most) => `select * from nodes where ${where} order by node_id ${direction} limit ${most}`;
  };

const ways = {
  ids: { answers: ['ids'], rows: simply(({ ids = '' }, bind) => `node_id = any(${bind(ids.split(','))})`) },
  /** What a tenant has, or once had and was not given back; who holds it now is asked of each. */
  tenant: {
    answers: [],
    rows(filter, bind, direction) {
      const where = `tenant = ${bind(filter.tenant)} and status <> 'released' and node_id is not null ${after(filter, bind, direction)}`;
      return (most) => `select whole.* from (
          select distinct node_id from allocations where ${where} order by node_id ${direction} limit ${most}) mine
        join nodes whole using (node_id)`;
    },
  },
  held: { answers: ['held'], rows: simply(() => 'held is not null') },
  places: {
    answers: ['pool', 'status'],
    rows: (filter, bind, direction) =>
      alongPoolsAndStatuses({
        table: 'nodes',
        key: 'node_id',
        pools: filter.pool === undefined ? everyPool : `${bind([filter.pool])}::text[]`,
        statuses: `${bind(filter.status === undefined ? Object.keys(nodeStatuses) : [filter.status])}::text[]`,
        after: after(filter, bind, direction),
        direction,
      }),
  },
  all: { answers: [], rows: simply(() => 'true') },
} satisfies Record<string, Way>;

function wayFor({ ids, tenant, held, pool, status, q }: NodeFilter): Way {
  if (ids !== undefined) return ways.ids;
  if (tenant !== null) return ways.tenant;
  if (held) return ways.held;
  // A status alone is one place in every pool; with a word to look for, each of them would be looked through.
  return pool !== undefined || (status !== undefined && q === undefined) ? ways.places : ways.all;
}

type Bind = (value: unknown) => string;

const meantExactly = (word: string) =>
  `(node.name = ${word} or node.node_id = ${word} or node.node_instance_id = ${word})`;

/** What the way does not answer, each as a condition on `node`. */
const conditions: { [K in keyof NodeFilter]?: (value: NonNullable<NodeFilter[K]>, bind: Bind) => string } = {
  pool: (pool, bind) => `node.pool = ${bind(pool)}`,
  status: (status, bind) => `node.status = ${bind(status)}`,
  held: (held) => `node.held is ${held ? 'not null' : 'null'}`,
  ids: (ids, bind) => `node.node_id = any(${bind(ids.split(','))})`,
  tenant: (tenant, bind) => heldByTenant(bind(tenant)),
};

/** Ids are small letters; only of a name both kinds have to be tried, which costs several times as much. */
const contains = (q: string, bind: Bind): string => {
  const like = bind(`%${q.replace(/[\\%_]/g, '\\$&')}%`);
  const small = bind(`%${q.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`);
  return `(node.name ilike ${like} or node.node_id like ${small} or node.node_instance_id like ${small})`;
};

function conditionsOf(filter: NodeFilter, bind: Bind, answered: (keyof NodeFilter)[] = []): string[] {
  const asked = Object.keys(conditions) as (keyof typeof conditions)[];
  return asked.flatMap((name) => {
    const value = filter[name];
    const condition = conditions[name] as ((value: unknown, bind: Bind) => string) | undefined;
    return value === undefined || value === null || !condition || answered.includes(name)
      ? []
      : [condition(value, bind)];
  });
}

/** Living ones by the names of every pool, the rest by an index of their own. $1 is the word. */
const exactIds = `
  select node_id from pools place join nodes on nodes.pool = place.name and nodes.name = $1 and nodes.status <> 'retired'
  union select node_id from nodes where name = $1 and status = 'retired'
  union select node_id from nodes where node_id = $1
  union select node_id from instances where node_instance_id = $1`;

async function meant(db: Queryable, filter: NodeFilter, q: string, direction: Direction): Promise<JoinedRow[]> {
  const { values, bind } = parameters();
  const word = bind(q);
  const where = [meantExactly(word), ...conditionsOf(filter, bind)];
  return db.query<JoinedRow>(
    `${joinedTo(`(select * from nodes where node_id in (${exactIds})) node`)} where ${where.join(' and ')}
     order by node.node_id ${direction} limit ${filter.limit}`,
    values,
  );
}

/** A place before every node, whichever way the walk goes and however the database sorts. */
const fromTheStart: Record<Direction, string> = { desc: 'zz', asc: 'a' };

export async function listNodes(db: Queryable, filter: NodeFilter): Promise<Page<Node>> {
  const direction: Direction = filter.sort === 'oldest' ? 'asc' : 'desc';
  const way = wayFor(filter);
  const { values, bind } = parameters();
  const walk: Walk = { table: 'node', key: 'node_id', rows: way.rows(filter, bind, direction), values };
  const more = parameters(values.length);
  const bindMore = more.bind;
  const where = conditionsOf(filter, bindMore, way.answers);
  // What is meant exactly comes first, wherever it stands in the order, and so nowhere else.
  const first = filter.q !== undefined && !filter.after ? await meant(db, filter, filter.q, direction) : [];
  if (filter.q !== undefined) where.push(contains(filter.q, bindMore), `not ${meantExactly(bindMore(filter.q))}`);
  if (first.length === filter.limit) return { items: first.map(nodeWire), next_cursor: fromTheStart[direction] };
  const wanted: Wanted = { where, values: more.values, direction, limit: filter.limit - first.length };
  const { rows, next_cursor } = await readWalk<JoinedRow>(db, walk, wanted, joinedTo);
  return { items: [...first, ...rows].map(nodeWire), next_cursor };
}
