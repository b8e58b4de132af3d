/**
 * Snapshots: before a piece of evidence is dropped, each node and allocation whose story is in it is told once as it stood at its
 * last fact there, in the place of that fact. What is over for good goes without, once nothing else is left of it.
 */
import type { Database } from './database.ts';
import { type Projected, projected, tellsOfRow } from './projection.ts';

/** The ids that a snapshot carries, taken from the row it tells of. */
const idsOf: Record<Projected['table'], string[]> = {
  nodes: ['node_id', 'node_instance_id', 'correlation_id', 'workflow_id'],
  allocations: ['allocation_id', 'node_id', 'correlation_id', 'workflow_id'],
};

const terminal: Record<Projected['table'], string> = { nodes: 'retired', allocations: 'released' };

/** Small enough that nobody who reads evidence waits for it to end. */
const slice = 500;

function snapshotSql(of: Projected): string {
  const { table, key, noun } = of;
  const cut = `layer = $1 and at < $2 and ${tellsOfRow(of, 'evidence')}`;
  return `
    with subject as materialized (select distinct ${key} as id from evidence where ${cut} and ${key} > $3 order by 1 limit $4),
    place as (
      select distinct on (${key}) ${key} as id, xid, seq from evidence where ${cut} and ${key} in (select id from subject)
      order by ${key}, xid desc, seq desc),
    stood as (
      select id, place.xid, place.seq, jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
      from place join evidence fact on fact.${key} = id and (fact.xid, fact.seq) <= (place.xid, place.seq)
      where ${tellsOfRow(of, 'fact')} group by 1, 2, 3),
    written as (
      insert into evidence (xid, seq, at, layer, kind, summary, data, ${idsOf[table].join(', ')})
      select xid, seq, $5, 'store', '${noun}.snapshot',
        format('what layer %s told of it before %s was dropped, for its time was over; it was %s then', $1::text, $6::text, set ->> 'status'),
        jsonb_build_object('set', set, 'cut', jsonb_build_object('layer', $1::text, 'before', $6::text)),
        ${idsOf[table].map((id) => `set ->> '${id}'`).join(', ')}
      from stood
      where not exists (select from evidence same where same.${key} = id and (same.xid, same.seq) = (stood.xid, stood.seq)
          and same.kind = '${noun}.snapshot' and not (same.layer = $1 and same.at < $2))
        and (set ->> 'status' <> '${terminal[table]}' or exists (
          select from evidence other where other.${key} = id and ${tellsOfRow(of, 'other')} and not (other.layer = $1 and other.at < $2)))
      returning 1)
    select (select max(id) from subject) as cursor, (select count(*)::int from written) as written`;
}

/** Answers how many were written; repeated, it writes only what is missing. */
export async function writeSnapshots(db: Database, { layer, until }: { layer: string; until: Date }): Promise<number> {
  // Beyond every earlier cut, or the layer that keeps it might have dropped that time already.
  const [cuts] = await db.query<{ at: Date }>('select greatest($1, max(before)) as at from evidence_cuts', [until]);
  let written = 0;
  for (const of of projected) {
    for (let cursor: string | null = ''; cursor !== null; ) {
      const [done]: { cursor: string | null; written: number }[] = await db.query(snapshotSql(of), [
        layer,
        until,
        cursor,
        slice,
        cuts?.at ?? until,
        until.toISOString(),
      ]);
      cursor = done?.cursor ?? null;
      written += done?.written ?? 0;
    }
  }
  return written;
}
