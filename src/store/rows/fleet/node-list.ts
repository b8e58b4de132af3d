/** The list of nodes: whichever way is asked, one index is walked, and a name or an id that is meant exactly is found at once. */

import type { Node } from '../../../contract/node.ts';
import type { Page } from '../../../contract/primitives.ts';
import { nodeStatuses } from '../../../lifecycle/model/states.ts';
import type { Visibility } from '../../../lifecycle/visibility.ts';
import type { Queryable } from '../../pg/database.ts';
import {
  alongPoolsAndStatuses,
  type Bind,
  beyond,
  type Direction,
  parameters,
  readWalk,
  type Walk,
  type Wanted,
} from '../../pg/walk.ts';
import { heldNodes, mayHoldNode } from '../../visibility.ts';
import { type JoinedRow, joinedTo, nodeWire } from '../nodes.ts';

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

/** Where the walk goes, and which conditions it answers by itself. */
interface Way {
  answers: (keyof NodeFilter)[];
  rows(filter: NodeFilter, bind: Bind, direction: Direction): Walk['rows'];
}

const after = ({ after: place }: NodeFilter, bind: Bind, direction: Direction) =>
  place === undefined ? '' : `and node_id ${beyond(direction)} ${bind(place)}`;

const simply =
  (condition: (filter: NodeFilter, bind: Bind) => string): Way['rows'] =>
  (filter, bind, direction) => {
    const where = `${condition(filter, bind)} ${after(filter, bind, direction)}`;
    return (most) => `select * from nodes where ${where} order by node_id ${direction} limit ${most}`;
  };

const ways = {
  ids: { answers: ['ids'], rows: simply(({ ids = '' }, bind) => `node_id = any(${bind(ids.split(','))})`) },
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

/** The nodes that the tenant's allocations may hold; `heldNodes` then checks who holds each. */
const wayOfTenant = (tenant: string): Way => ({
  answers: [],
  rows(filter, bind, direction) {
    const where = `${mayHoldNode(bind(tenant))} ${after(filter, bind, direction)}`;
    return (most) => `
      select whole.* from (
        select distinct node_id from allocations
        where ${where}
        order by node_id ${direction}
        limit ${most}
      ) mine
      join nodes whole using (node_id)`;
  },
});

function wayFor({ ids, visibility, held, pool, status, q }: NodeFilter): Way {
  if (ids !== undefined) return ways.ids;
  if (visibility.kind !== 'fleet') return wayOfTenant(visibility.tenant);
  if (held) return ways.held;
  // A status alone is one place in every pool; with a word to look for, each of them would be looked through.
  return pool !== undefined || (status !== undefined && q === undefined) ? ways.places : ways.all;
}

const meantExactly = (word: string) =>
  `(node.name = ${word} or node.node_id = ${word} or node.node_instance_id = ${word})`;

/** What the way does not answer, each as a condition on `node`. */
const conditions: { [K in keyof NodeFilter]?: (value: NonNullable<NodeFilter[K]>, bind: Bind) => string } = {
  pool: (pool, bind) => `node.pool = ${bind(pool)}`,
  status: (status, bind) => `node.status = ${bind(status)}`,
  held: (held) => `node.held is ${held ? 'not null' : 'null'}`,
  ids: (ids, bind) => `node.node_id = any(${bind(ids.split(','))})`,
};

const partOfAnId = /^[0-9a-z_]+$/;

/** Names and ids are small letters; a word with anything that no id has is looked for in names alone. Each look is at thousands of rows. */
const contains = (q: string, bind: Bind): string => {
  const small = q.toLowerCase();
  const like = bind(`%${small.replace(/[\\%_]/g, '\\$&')}%`);
  const columns = partOfAnId.test(small) ? ['name', 'node_id', 'node_instance_id'] : ['name'];
  return `(${columns.map((column) => `node.${column} like ${like}`).join(' or ')})`;
};

function conditionsOf(filter: NodeFilter, bind: Bind, answered: (keyof NodeFilter)[] = []): string[] {
  const names = Object.keys(conditions) as (keyof typeof conditions)[];
  const wanted = names.flatMap((name) => {
    const value = filter[name];
    const condition = conditions[name] as ((value: unknown, bind: Bind) => string) | undefined;
    return value === undefined || !condition || answered.includes(name) ? [] : [condition(value, bind)];
  });
  return [...wanted, ...heldNodes(filter.visibility, bind)];
}

/** Living ones by the names of every pool, the rest by an index of their own. $1 is the word. */
const exactIds = `
  select node_id from pools place join nodes on nodes.pool = place.name and nodes.name = $1 and nodes.status <> 'retired'
  union select node_id from nodes where name = $1 and status = 'retired'
  union select node_id from nodes where node_id = $1
  union select node_id from instances where node_instance_id = $1`;

/** Before the id of one that was meant exactly, in the cursor of a page after which more of those come. */
const amongMeant = 'meant_';

/** Where those that are meant exactly go on; undefined when they are over, or nothing is looked for. */
function placeAmongMeant({ q, after }: NodeFilter): string | undefined {
  if (q === undefined || after === undefined) return q === undefined ? undefined : '';
  return after.startsWith(amongMeant) ? after.slice(amongMeant.length) : undefined;
}

/** One more than the page holds, where there are so many. */
async function meant(db: Queryable, filter: NodeFilter, place: string, direction: Direction): Promise<JoinedRow[]> {
  const { values, bind } = parameters();
  const where = [meantExactly(bind(filter.q)), ...conditionsOf(filter, bind)];
  if (place !== '') where.push(`node.node_id ${beyond(direction)} ${bind(place)}`);
  return db.query<JoinedRow>(
    `${joinedTo(`(select * from nodes where node_id in (${exactIds})) node`)} where ${where.join(' and ')}
     order by node.node_id ${direction} limit ${filter.limit + 1}`,
    values,
  );
}

/** A place before every node, whichever way the walk goes and however the database sorts. */
const fromTheStart: Record<Direction, string> = { desc: 'zz', asc: 'a' };

export async function listNodes(db: Queryable, filter: NodeFilter): Promise<Page<Node>> {
  const direction: Direction = filter.sort === 'oldest' ? 'asc' : 'desc';
  // What is meant exactly comes first, wherever it stands in the order, and so nowhere else.
  const place = placeAmongMeant(filter);
  const first = place === undefined ? [] : await meant(db, filter, place, direction);
  if (first.length >= filter.limit) {
    const items = first.slice(0, filter.limit).map(nodeWire);
    const isMore = first.length > filter.limit;
    return { items, next_cursor: isMore ? `${amongMeant}${items.at(-1)?.node_id}` : fromTheStart[direction] };
  }
  const { after: _, ...fromStart } = filter;
  const { rows, next_cursor } = await walkNodes(db, place === undefined ? filter : fromStart, direction, first.length);
  return { items: [...first, ...rows].map(nodeWire), next_cursor };
}

/** A page without those that were `told` before it. */
function walkNodes(db: Queryable, filter: NodeFilter, direction: Direction, told: number) {
  const way = wayFor(filter);
  const { values, bind } = parameters();
  const walk: Walk = { table: 'node', key: 'node_id', rows: way.rows(filter, bind, direction), values };
  const more = parameters(values.length);
  const where = conditionsOf(filter, more.bind, way.answers);
  if (filter.q !== undefined) where.push(contains(filter.q, more.bind), `not ${meantExactly(more.bind(filter.q))}`);
  const wanted: Wanted = { where, values: more.values, direction, limit: filter.limit - told };
  return readWalk<JoinedRow>(db, walk, wanted, joinedTo);
}
