/**
 * Snapshots: before a piece of evidence is dropped, each node and allocation whose story is in it is told once as it stood at its
 * last fact there, in the place of that fact. What is over for good goes without, once nothing else is left of it.
 */
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { rowTextColumns } from '../integrity/row-text.ts';
import type { Sealer } from '../integrity/sealer.ts';
import type { Database } from '../pg/database.ts';
import { changesRow, type Projected, projected } from './projection.ts';

/** The ids that a snapshot carries, taken from the row it tells of. */
const idsOf: Record<Projected['table'], string[]> = {
  nodes: ['node_id', 'node_instance_id', 'correlation_id', 'workflow_id'],
  allocations: ['allocation_id', 'node_id', 'correlation_id', 'workflow_id'],
};

const terminal: Record<Projected['table'], string> = { nodes: 'retired', allocations: 'released' };

/** Small enough that nobody who reads evidence waits for it to end. */
const slice = 200;

/** Whose story has something in what is cut, in the order of their ids. */
const subjectsSql = (of: Projected): string => `
  select distinct ${of.key} as id from evidence where layer = $1 and at < $2 and ${changesRow(of, 'evidence')} and ${of.key} > $3
  order by 1 limit ${slice}`;

/** By a list of keys: the database knows how many they are, and looks their facts up instead of reading everybody's. */
function snapshotSql(of: Projected): string {
  const { table, key, noun } = of;
  return `
    with place as materialized (
      select distinct on (${key}) ${key} as id, xid, seq from evidence
      where layer = $1 and at < $2 and ${changesRow(of, 'evidence')} and ${key} = any($3) order by ${key}, xid desc, seq desc),
    stood as (
      select id, place.xid, place.seq, jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
      from place join evidence fact on fact.${key} = id and (fact.xid, fact.seq) <= (place.xid, place.seq)
      where fact.${key} = any($3) and ${changesRow(of, 'fact')} group by 1, 2, 3),
    remaining as materialized (
      select ${key} as id, xid, seq, kind from evidence
      where ${key} = any($3) and ${changesRow(of, 'evidence')} and not (layer = $1 and at < $2)),
    written as (
      insert into evidence (xid, seq, at, layer, kind, summary, data, origin, ${idsOf[table].join(', ')})
      select xid, seq, $4, 'store', '${noun}.snapshot',
        format('what layer %s told of it before %s was dropped, for its time was over; it was %s then', $1::text, $5::text, set ->> 'status'),
        jsonb_build_object('set', set, 'cut', jsonb_build_object('layer', $1::text, 'before', $5::text)),
        'internal', ${idsOf[table].map((id) => `set ->> '${id}'`).join(', ')}
      from stood
      where not exists (select from remaining where remaining.id = stood.id and remaining.kind = '${noun}.snapshot'
          and (remaining.xid, remaining.seq) = (stood.xid, stood.seq))
        and (set ->> 'status' <> '${terminal[table]}' or stood.id in (select id from remaining))
      returning *)
    select ${rowTextColumns} from written`;
}

/** Returns how many were written; repeated, it writes only what is missing. Each slice is sealed in its own transaction. */
export async function writeSnapshots(
  db: Database,
  sealer: Sealer,
  { layer, until }: { layer: string; until: Date },
  now: Date,
): Promise<number> {
  // Beyond every earlier cut, or the layer that keeps it might have dropped that time already.
  const [cuts] = await db.query<{ at: Date }>('select greatest($1, max(before)) as at from evidence_cuts', [until]);
  let written = 0;
  for (const of of projected) {
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const subjects: { id: string }[] = await db.query(subjectsSql(of), [layer, until, cursor]);
      const ids = subjects.map(({ id }) => id);
      const values = [layer, until, ids, cuts?.at ?? until, until.toISOString()];
      if (ids.length > 0)
        written += await db.transaction((tx) =>
          sealer.sealLate(tx, () => tx.query<RowText>(snapshotSql(of), values), now),
        );
      cursor = ids.length === slice ? ids.at(-1) : undefined;
    }
  }
  return written;
}
