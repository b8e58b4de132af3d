/**
 * Creates and drops partitions of evidence. Each layer is partitioned by time, and a partition is
 * dropped as a whole after the retention time of its layer. SQL and checkpoints call it a "piece".
 * Before the drop, nodes and allocations with facts in the partition get a snapshot, so that their
 * rows can be rebuilt and their timelines show the cut.
 */
import { moment, secondsLater } from '../../base/clock.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import { evidenceLayers } from '../../contract/evidence/evidence-layers.ts';
import { type KeepSeconds, midnightAfter, partitionSeconds } from '../../lifecycle/limits/retention.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Sealer } from '../integrity/sealer.ts';
import type { Database, Queryable } from '../pg/database.ts';
import { writeSnapshots } from './snapshots.ts';

export interface Partition {
  layer: keyof KeepSeconds;
  /** The name of the table. */
  piece: string;
  until: Date;
}

/** An advisory lock: only one replica at a time creates or drops partitions. */
const partitionLock = 7_213_002;
/**
 * A layer is not partitioned before its oldest fact is this old, and the database refuses to drop a
 * partition whose end is more recent.
 */
const minPartitionAgeSeconds = 24 * 3600;

/** Reads the partitions that have an end, in the order of their ends. */
export const listPartitions = (db: Queryable): Promise<Partition[]> =>
  db.query<Partition>('select layer, piece, until from evidence_closed_pieces() order by until, layer');

/** Reads the time of the oldest fact of each layer that has facts. */
async function readOldestFacts(db: Queryable): Promise<Map<string, Date>> {
  const oldest = evidenceLayers.map(
    (layer) => `(
      select layer, at
      from evidence
      where layer = '${layer}'
      order by xid, seq
      limit 1
    )`,
  );
  const rows = await db.query<{ layer: string; at: Date }>(oldest.join(' union all '));
  return new Map(rows.map(({ layer, at }) => [layer, at]));
}

/**
 * Returns the ends of the partitions to create. The next partition must exist before the present
 * one ends.
 */
function planPartitionEnds(last: Date | undefined, width_seconds: number, now: Date): Date[] {
  const ends = last ? [] : [moment(midnightAfter(now))];
  let until = last ?? ends[0] ?? now;
  while (until < secondsLater(now, width_seconds)) {
    until = secondsLater(until, width_seconds);
    ends.push(until);
  }
  return ends;
}

/**
 * Creates the partitions for future facts. Each one gets its own transaction, so that a layer is
 * locked only briefly.
 */
export async function extendEvidence(db: Database, keep: KeepSeconds, now: Date): Promise<string[]> {
  const partitions = await listPartitions(db);
  const oldest = await readOldestFacts(db);
  const created: string[] = [];
  for (const layer of evidenceLayers) {
    const last = partitions.findLast((partition) => partition.layer === layer)?.until;
    const oldestAt = oldest.get(layer);
    if (!last && (!oldestAt || oldestAt > secondsLater(now, -minPartitionAgeSeconds))) continue;
    for (const until of planPartitionEnds(last, partitionSeconds(keep[layer]), now)) {
      const [extended] = await db.transaction(async (tx) => {
        await tx.query('select pg_advisory_xact_lock($1)', [partitionLock]);
        return tx.query<{ piece: string | null }>('select evidence_extend($1, $2) as piece', [layer, until]);
      });
      if (extended?.piece) created.push(extended.piece);
    }
  }
  return created;
}

/**
 * Drops expired partitions and signs each cut. A partition with unsealed rows is kept until these
 * are sealed. Returns the number of dropped partitions.
 */
export async function cutEvidence(db: Database, sealer: Sealer, keep: KeepSeconds, now: Date): Promise<number> {
  const expiredPartitions = (await listPartitions(db)).filter(
    ({ layer, until }) => until <= secondsLater(now, -Math.max(keep[layer], minPartitionAgeSeconds)),
  );
  let cuts = 0;
  for (const partition of expiredPartitions) {
    const snapshots = await writeSnapshots(db, sealer, partition, now);
    const isCut = await db.transaction(async (tx) => {
      await tx.query('select pg_advisory_xact_lock($1)', [partitionLock]);
      const [existing] = await tx.query('select from evidence_closed_pieces() where piece = $1', [partition.piece]);
      if (!existing) return false;
      const drop = async () => {
        const [cut] = await tx.query<{ facts: string }>('select evidence_cut($1) as facts', [partition.piece]);
        return Number(cut?.facts);
      };
      const facts = await sealer.sealCut(tx, { ...partition, before: partition.until }, drop, now);
      if (facts === undefined) return false;
      const before = partition.until.toISOString();
      await recordEvidence(tx, [
        {
          at: now,
          layer: 'store',
          kind: 'evidence.cut',
          summary: `dropped ${facts} facts of layer ${partition.layer} that are older than ${before}: their retention time is over`,
          data: { layer: partition.layer, before, facts, snapshots, keep_seconds: keep[partition.layer] },
        },
      ]);
      return true;
    });
    if (isCut) cuts++;
  }
  return cuts;
}

/** Returns the time before which evidence of these layers was dropped; null if none was dropped. */
export async function readNewestCut(
  db: Queryable,
  layers: readonly EvidenceLayer[] = evidenceLayers,
): Promise<Date | null> {
  const [row] = await db.query<{ before: Date | null }>(
    'select max(before) as before from evidence_cuts where layer = any($1)',
    [layers],
  );
  return row?.before ?? null;
}
