/**
 * Begins an era of evidence if the database was restored since the last start, so that new facts
 * come after all older ones. Run this as the owner of the tables, before the first fact is written.
 */
import type pg from 'pg';
import { createRedactor } from '../../base/redaction/redact.ts';
import { eraOf, startOf } from './commit-order.ts';
import { recordEvidence } from './evidence.ts';

/** Why an era began. */
export type RestoreSign =
  /** The database is in another PostgreSQL cluster than before. */
  | 'other_cluster'
  /** Stored facts are newer than every transaction of this cluster. */
  | 'counter_went_back'
  /** The database does not know its eras, because only rows were restored. */
  | 'eras_missing';

export interface BegunEra {
  era: string;
  sign: RestoreSign;
  /** The last fact that was restored. */
  last: string | null;
}

interface Present {
  /** The era that the SQL functions use now. */
  era: string;
  cluster: string | null;
  xmax: string;
  now: Date;
  recorded_era: string | null;
  recorded_cluster: string | null;
  head_xid: string | null;
  head_seq: string | null;
}

const present = `
  select evidence_era()::text as era, evidence_cluster() as cluster,
    pg_snapshot_xmax(pg_current_snapshot())::text as xmax, clock_timestamp() as now,
    recorded.era::text as recorded_era, recorded.cluster as recorded_cluster,
    head.xid::text as head_xid, head.seq::text as head_seq
  from (values (1)) as always
  left join (
    select era, cluster
    from evidence_eras
    order by era desc
    limit 1
  ) recorded on true
  left join (
    -- Not only settled facts: in a restored database none may look settled.
    select xid, seq
    from evidence
    order by evidence.xid desc, evidence.seq desc
    limit 1
  ) head on true`;

function restoreSign(row: Present): RestoreSign | undefined {
  const { cluster, recorded_cluster } = row;
  if (row.recorded_era === null) return 'eras_missing';
  if (cluster !== null && recorded_cluster !== null && cluster !== recorded_cluster) return 'other_cluster';
  const era = BigInt(row.era);
  if (era < BigInt(row.recorded_era)) return 'counter_went_back';
  const isBeyond = BigInt(row.head_xid ?? 0) >= startOf(era) + BigInt(row.xmax);
  return isBeyond ? 'counter_went_back' : undefined;
}

const highest = (...eras: bigint[]): bigint => eras.reduce((a, b) => (a > b ? a : b));

/** Returns the new era, or undefined if the database was not restored. */
export async function beginEraIfRestored(client: Pick<pg.Client, 'query'>): Promise<BegunEra | undefined> {
  const { rows } = await client.query<Present>(present);
  const [row] = rows;
  const sign = row && restoreSign(row);
  if (!row || !sign) return undefined;
  const { era, recorded_era, head_xid, head_seq } = row;
  const next = highest(BigInt(era), BigInt(recorded_era ?? 0), eraOf(head_xid ?? '0')) + 1n;
  const begun = { era: String(next), sign, last: head_xid === null ? null : `${head_xid}-${head_seq}` };
  await client.query('select evidence_begin_era($1)', [begun.era]);
  const db = {
    query: async <R extends object>(text: string, values?: unknown[]) => (await client.query<R>(text, values)).rows,
    redact: createRedactor(),
    evidenceWritten: () => {},
  };
  const summary = `The database was restored. New facts are in era ${begun.era}.`;
  await recordEvidence(db, [{ at: row.now, layer: 'store', kind: 'evidence.restored', summary, data: { ...begun } }]);
  return begun;
}
