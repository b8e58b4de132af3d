/**
 * A node as it stood at a moment, from evidence alone. Facts are taken in commit order up to the last one of that moment, so that what
 * is shown is always something that was: two changes that crossed are never seen the wrong way round.
 */
import type { NodeState } from '../../contract/node.ts';
import { formatCursor } from '../evidence/evidence.ts';
import type { Queryable, Row } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { holds, type NodeRow, stateWire } from '../rows/nodes.ts';
import { allocations, changesRow, nodes, type Projected } from './projection.ts';

interface Asked {
  id: string;
  at: Date;
}

type Then<R> = R & { place: number; xid: string; seq: string };

const thenSql = (of: Projected): string => `
  select asked.place::int - 1 as place, last.xid::text as xid, last.seq::text as seq, told.*
  from unnest($1::text[], $2::timestamptz[]) with ordinality as asked(id, moment, place)
  cross join lateral (
    select fact.xid, fact.seq from evidence fact where fact.${of.key} = asked.id and ${changesRow(of, 'fact')} and fact.at <= asked.moment
    order by fact.xid desc, fact.seq desc limit 1) last
  cross join lateral (
    select jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set from evidence fact
    where fact.${of.key} = asked.id and ${changesRow(of, 'fact')} and (fact.xid, fact.seq) <= (last.xid, last.seq)) stood
  cross join lateral jsonb_populate_record(null::${of.table}, stood.set) told`;

const then = <R extends Row>(db: Queryable, of: Projected, asked: readonly Asked[]): Promise<Then<R>[]> =>
  db.query<Then<R>>(thenSql(of), [asked.map(({ id }) => id), asked.map(({ at }) => at)]);

/** Every allocation that had come near the node until then. */
const visitors = `
  select distinct asked.place::int - 1 as place, fact.allocation_id as id from unnest($1::text[], $2::timestamptz[]) with ordinality as asked(id, moment, place)
  join evidence fact on fact.node_id = asked.id and fact.at <= asked.moment
  where ${changesRow(allocations, 'fact')} and fact.allocation_id is not null`;

export interface Stood {
  state: NodeState;
  /** Whose machine it was then. */
  tenant: string | null;
}

/** In the order of what was asked; undefined for a node that was not there yet. */
export async function nodesAt(db: Queryable, asked: readonly Asked[]): Promise<(Stood | undefined)[]> {
  const rows = await then<NodeRow>(db, nodes, asked);
  const near = await db.query<{ place: number; id: string }>(visitors, [
    asked.map(({ id }) => id),
    asked.map(({ at }) => at),
  ]);
  const around = near.map(({ place, id }) => ({ id, at: asked[place]?.at ?? new Date(0), of: place }));
  const stood = await then<AllocationRow>(db, allocations, around);
  const byPlace = Map.groupBy(stood, ({ place }) => around[place]?.of);
  const found = new Map(rows.map((row) => [row.place, row]));
  return asked.map(({ at }, place) => {
    const row = found.get(place);
    if (!row) return undefined;
    const holder = (byPlace.get(place) ?? [])
      .filter(({ node_id, status }) => node_id === row.node_id && holds(status, row.status))
      .sort((a, b) => (a.allocation_id < b.allocation_id ? 1 : -1))[0];
    const state = {
      at: at.toISOString(),
      cursor: formatCursor(row),
      ...stateWire({
        ...row,
        allocation_id: holder?.allocation_id ?? null,
        allocation_status: holder?.status ?? null,
      }),
    };
    return { state, tenant: holder?.tenant ?? null };
  });
}
