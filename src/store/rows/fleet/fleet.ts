/**
 * Every living node with the little that a picture of the fleet needs. One index in its own order, whole columns from the
 * database, and no join: a page of twenty thousand is a few dozen milliseconds, however many there are.
 */
import type { FleetPage } from '../../../contract/fleet.ts';
import type { Labels } from '../../../contract/primitives.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { type Queryable, single } from '../../pg/database.ts';
import { heldByTenant, type Tenancy, withHolder } from '../nodes.ts';

/** Where a page ended: names are unique among the living nodes of a pool, and an index keeps them in this order. */
export interface FleetPlace {
  pool: string;
  name: string;
}

export function parseFleetCursor(text: string): FleetPlace | undefined {
  const [pool, name, ...more] = text.split('/');
  return pool && name && more.length === 0 ? { pool, name } : undefined;
}

interface Columns {
  node_ids: string[] | null;
  names: string[];
  statuses: NodeStatus[];
  pools: string[];
  zones: (string | null)[];
  labels: string[];
  since: number[];
  deadlines: (number | null)[];
  held: boolean[];
}

const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::bigint`;

/** As for a single node: while a failed release waits for its next try, the last one's deadline decides nothing. */
const deadline = `case when node.status = 'cleaning' and exists (
  select 1 from allocations where node_id = node.node_id and status = 'release_failed') then null else node.deadline_at end`;

const columns = `
  json_agg(node_id) as node_ids, json_agg(name) as names, json_agg(status) as statuses, json_agg(pool) as pools,
  json_agg(zone) as zones, json_agg(labels::text) as labels, json_agg(${ms('status_since')}) as since,
  json_agg(${ms('deadline')}) as deadlines, json_agg(is_held) as held`;

/** Each different value once, and for every node which it is. */
function told<T>(values: readonly T[]): { once: T[]; which: number[] } {
  const places = new Map<T, number>();
  const which = values.map((value) => {
    const known = places.get(value);
    if (known !== undefined) return known;
    places.set(value, places.size);
    return places.size - 1;
  });
  return { once: [...places.keys()], which };
}

const nothing: Columns = {
  node_ids: [],
  names: [],
  statuses: [],
  pools: [],
  zones: [],
  labels: [],
  since: [],
  deadlines: [],
  held: [],
};

/**
 * Those that a tenant may hold, found by its allocations before anything else is asked: with the whole fleet in sight, the database would walk
 * through it to find the first few, and ask of each machine who holds it.
 */
const ownNodes = (tenant: string) => `(
  select * from nodes where node_id in (
    select node_id from allocations where tenant = ${tenant} and status <> 'released' and node_id is not null) offset 0) node`;

export interface FleetRead {
  after: FleetPlace | undefined;
  limit: number;
  pool?: string | undefined;
  tenant: Tenancy;
}

export async function readFleet(db: Queryable, { after, limit, pool: only, tenant }: FleetRead): Promise<FleetPage> {
  const values: unknown[] = [limit];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const where = [`node.status <> 'retired'`];
  if (after) where.push(`(node.pool, node.name) > (${bind(after.pool)}, ${bind(after.name)})`);
  if (only !== undefined) where.push(`node.pool = ${bind(only)}`);
  const nodes = tenant === null ? 'nodes node' : ownNodes(bind(tenant));
  if (tenant !== null) where.push(heldByTenant(`$${values.length}`));
  const read = single(
    await db.query<Columns>(
      `select ${columns} from (
         select node.*, node.held is not null as is_held, ${deadline} as deadline
         from ${nodes} ${tenant === null ? '' : withHolder}
         where ${where.join(' and ')} order by node.pool, node.name limit $1) page`,
      values,
    ),
  );
  const { node_ids, names, ...found } = read.node_ids ? read : nothing;
  const [status, pool, zone] = [told(found.statuses), told(found.pools), told(found.zones)];
  const label = told(found.labels);
  const isFull = names.length === limit;
  return {
    statuses: status.once,
    pools: pool.once,
    zones: zone.once,
    labels: label.once.map((text) => JSON.parse(text) as Labels),
    node_ids: node_ids ?? [],
    names,
    status: status.which,
    pool: pool.which,
    zone: zone.which,
    label: label.which,
    status_since_ms: found.since,
    deadline_ms: found.deadlines,
    held: found.held.flatMap((isHeld, at) => (isHeld ? [at] : [])),
    next_cursor: isFull ? `${found.pools.at(-1)}/${names.at(-1)}` : null,
  };
}
