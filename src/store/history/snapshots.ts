/**
 * Writes snapshots before a partition of evidence is dropped. Each node and allocation with facts
 * in the partition gets one fact at the position of its last fact there, with the whole row as of
 * that position. A row in a final status gets no snapshot if all its facts are in the partition.
 */
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { rowTextColumns } from '../integrity/row-text.ts';
import type { Sealer } from '../integrity/sealer.ts';
import type { Database } from '../pg/database.ts';
import { allProjections, changesRow, type Projection } from './projection.ts';

/** The columns with ids that a snapshot copies from the row. */
const copiedIds: Record<Projection['table'], string[]> = {
  nodes: ['node_id', 'node_instance_id', 'correlation_id', 'workflow_id'],
  allocations: ['allocation_id', 'node_id', 'correlation_id', 'workflow_id'],
};

const finalStatuses: Record<Projection['table'], string> = { nodes: 'retired', allocations: 'released' };

/** Small, because newer facts are withheld from readers while the transaction of a slice runs. */
const sliceSize = 200;

/** Selects the nodes or allocations with facts in the partition, in the order of their ids. */
const subjectsSql = (projection: Projection): string => `
  select distinct ${projection.key} as id
  from evidence
  where layer = $1
    and at < $2
    and ${changesRow(projection, 'evidence')}
    and ${projection.key} > $3
  order by 1
  limit ${sliceSize}`;

/**
 * Filters by a list of keys, because the planner then looks up facts by key instead of scanning all
 * evidence.
 */
function snapshotSql(projection: Projection): string {
  const { table, key, noun } = projection;
  return `
    with last_fact as materialized (
      select distinct on (${key}) ${key} as id, xid, seq
      from evidence
      where layer = $1
        and at < $2
        and ${changesRow(projection, 'evidence')}
        and ${key} = any($3)
      order by ${key}, xid desc, seq desc
    ),
    merged as (
      select id, last_fact.xid, last_fact.seq,
        jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
      from last_fact
      join evidence fact on fact.${key} = id and (fact.xid, fact.seq) <= (last_fact.xid, last_fact.seq)
      where fact.${key} = any($3)
        and ${changesRow(projection, 'fact')}
      group by 1, 2, 3
    ),
    remaining as materialized (
      select ${key} as id, xid, seq, kind
      from evidence
      where ${key} = any($3)
        and ${changesRow(projection, 'evidence')}
        and not (layer = $1 and at < $2)
    ),
    written as (
      insert into evidence (xid, seq, at, layer, kind, summary, data, origin, ${copiedIds[table].join(', ')})
      select xid, seq, $4, 'store', '${noun}.snapshot',
        format('dropped facts of layer %s that are older than %s: their retention time is over; the status was %s',
          $1::text, $5::text, set ->> 'status'),
        jsonb_build_object('set', set, 'cut', jsonb_build_object('layer', $1::text, 'before', $5::text)),
        'internal', ${copiedIds[table].map((id) => `set ->> '${id}'`).join(', ')}
      from merged
      -- An earlier attempt may have written the snapshot.
      where not exists (
          select from remaining
          where remaining.id = merged.id
            and remaining.kind = '${noun}.snapshot'
            and (remaining.xid, remaining.seq) = (merged.xid, merged.seq))
        and (set ->> 'status' <> '${finalStatuses[table]}' or merged.id in (select id from remaining))
      returning *
    )
    select ${rowTextColumns} from written`;
}

/**
 * Writes and seals the snapshots in one transaction per slice. Can be repeated after a failure.
 * Returns how many it wrote.
 */
export async function writeSnapshots(
  db: Database,
  sealer: Sealer,
  { layer, until }: { layer: string; until: Date },
  now: Date,
): Promise<number> {
  // A snapshot needs a partition that still exists, so its time is not before the newest cut.
  const [newest] = await db.query<{ at: Date }>('select greatest($1, max(before)) as at from evidence_cuts', [until]);
  let written = 0;
  for (const projection of allProjections) {
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const subjects: { id: string }[] = await db.query(subjectsSql(projection), [layer, until, cursor]);
      const ids = subjects.map(({ id }) => id);
      const values = [layer, until, ids, newest?.at ?? until, until.toISOString()];
      if (ids.length > 0)
        written += await db.transaction((tx) =>
          sealer.sealLate(tx, () => tx.query<RowText>(snapshotSql(projection), values), now),
        );
      cursor = ids.length === sliceSize ? ids.at(-1) : undefined;
    }
  }
  return written;
}
