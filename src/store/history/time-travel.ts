/**
 * Rebuilds the state of a node at an earlier time from evidence. Facts are merged in commit order
 * up to the last fact of that time, so the result is always a state that the row really had.
 */
import type { NodeState } from '../../contract/node.ts';
import { formatCursor } from '../evidence/commit-order.ts';
import type { Queryable, Row } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { holdsNode, type NodeRow, stateWire } from '../rows/nodes.ts';
import { allocations, changesRow, nodes, type Projection } from './projection.ts';

interface PastRow {
  id: string;
  at: Date;
}

type Rebuilt<R> = R & { place: number; xid: string; seq: string };

const rebuildSql = (projection: Projection): string => `
  select wanted.place::int - 1 as place, last.xid::text as xid, last.seq::text as seq, rebuilt.*
  from unnest($1::text[], $2::timestamptz[]) with ordinality as wanted(id, moment, place)
  cross join lateral (
    select fact.xid, fact.seq
    from evidence fact
    where fact.${projection.key} = wanted.id
      and ${changesRow(projection, 'fact')}
      and fact.at <= wanted.moment
    order by fact.xid desc, fact.seq desc
    limit 1
  ) last
  cross join lateral (
    select jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
    from evidence fact
    where fact.${projection.key} = wanted.id
      and ${changesRow(projection, 'fact')}
      and (fact.xid, fact.seq) <= (last.xid, last.seq)
  ) merged
  cross join lateral jsonb_populate_record(null::${projection.table}, merged.set) rebuilt`;

const rebuildAt = <R extends Row>(
  db: Queryable,
  projection: Projection,
  wanted: readonly PastRow[],
): Promise<Rebuilt<R>[]> =>
  db.query<Rebuilt<R>>(rebuildSql(projection), [wanted.map(({ id }) => id), wanted.map(({ at }) => at)]);

/** Selects every allocation that had a fact on the node up to the wanted moment. */
const allocationsOfNodesSql = `
  select distinct wanted.place::int - 1 as place, fact.allocation_id as id
  from unnest($1::text[], $2::timestamptz[]) with ordinality as wanted(id, moment, place)
  join evidence fact on fact.node_id = wanted.id and fact.at <= wanted.moment
  where ${changesRow(allocations, 'fact')}
    and fact.allocation_id is not null`;

export interface PastNode {
  state: NodeState;
  /** The tenant that held the node at that time. */
  tenant: string | null;
}

/** Returns states in the order of `wanted`; undefined for a node that did not exist yet. */
export async function rebuildNodesAt(db: Queryable, wanted: readonly PastRow[]): Promise<(PastNode | undefined)[]> {
  const rows = await rebuildAt<NodeRow>(db, nodes, wanted);
  const allocationIds = await db.query<{ place: number; id: string }>(allocationsOfNodesSql, [
    wanted.map(({ id }) => id),
    wanted.map(({ at }) => at),
  ]);
  const pastAllocations = allocationIds.map(({ place, id }) => ({
    id,
    at: wanted[place]?.at ?? new Date(0),
    nodePlace: place,
  }));
  const rebuilt = await rebuildAt<AllocationRow>(db, allocations, pastAllocations);
  const allocationsByPlace = Map.groupBy(rebuilt, ({ place }) => pastAllocations[place]?.nodePlace);
  const rowsByPlace = new Map(rows.map((row) => [row.place, row]));
  return wanted.map(({ at }, place) => {
    const row = rowsByPlace.get(place);
    if (!row) return undefined;
    const holder = (allocationsByPlace.get(place) ?? [])
      .filter(({ node_id, status }) => node_id === row.node_id && holdsNode(status, row.status))
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
