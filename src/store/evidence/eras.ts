/**
 * Begins an era of evidence if the database was restored since the last start, so that new facts
 * come after all older ones. Run this as the owner of the tables, before the first fact is written.
 * Loading a backup begins one in any case.
 */
import type pg from 'pg';
import { createRedactor } from '../../base/redaction/redact.ts';
import { toEra, toFirstXid } from './commit-order.ts';
import { recordEvidence } from './evidence.ts';

/** Why an era began. */
export type RestoreSign =
  /** A backup was loaded. */
  | 'backup_loaded'
  /** The database is in another PostgreSQL cluster than before. */
  | 'other_cluster'
  /** Stored facts are newer than every transaction of this cluster. */
  | 'counter_went_back'
  /** The operator said so at the start. */
  | 'declared'
  /** The table of eras is empty, as after a restore of only some tables. */
  | 'eras_missing';

export interface BegunEra {
  era: string;
  sign: RestoreSign;
  /** The cursor of the last restored fact. */
  last: string | null;
}

interface EraState {
  /** The era that the SQL functions use now. */
  era: string;
  cluster: string | null;
  xmax: string;
  now: Date;
  recorded_era: string | null;
  recorded_cluster: string | null;
  head_xid: string | null;
  head_seq: string | null;
  /** The comment on `schema_migrations`. */
  mark: string | null;
}

/** Marks a database in which a backup of an earlier schema was loaded. */
const loadedMark = 'backup_loaded';

const eraStateSql = `
  select evidence_era()::text as era, evidence_cluster() as cluster,
    pg_snapshot_xmax(pg_current_snapshot())::text as xmax, clock_timestamp() as now,
    recorded.era::text as recorded_era, recorded.cluster as recorded_cluster,
    head.xid::text as head_xid, head.seq::text as head_seq,
    obj_description('schema_migrations'::regclass, 'pg_class') as mark
  from (values (1)) as always
  left join (
    select era, cluster
    from evidence_eras
    order by era desc
    limit 1
  ) recorded on true
  left join (
    -- Includes unsettled facts, because in a restored database no fact may look settled.
    select xid, seq
    from evidence
    order by evidence.xid desc, evidence.seq desc
    limit 1
  ) head on true`;

function findRestoreSign(row: EraState): RestoreSign | undefined {
  const { cluster, recorded_cluster } = row;
  if (row.mark === loadedMark) return 'backup_loaded';
  if (row.recorded_era === null) return 'eras_missing';
  if (cluster !== null && recorded_cluster !== null && cluster !== recorded_cluster) return 'other_cluster';
  const era = BigInt(row.era);
  if (era < BigInt(row.recorded_era)) return 'counter_went_back';
  const isBeyond = BigInt(row.head_xid ?? 0) >= toFirstXid(era) + BigInt(row.xmax);
  return isBeyond ? 'counter_went_back' : undefined;
}

const maxOf = (...eras: bigint[]): bigint => eras.reduce((a, b) => (a > b ? a : b));

type Client = Pick<pg.Client, 'query'>;

async function readEraState(client: Client): Promise<EraState> {
  const { rows } = await client.query<EraState>(eraStateSql);
  const [row] = rows;
  if (!row) throw new Error('a select of one row returned none');
  return row;
}

async function beginEra(client: Client, row: EraState, sign: RestoreSign): Promise<BegunEra> {
  const { era, recorded_era, head_xid, head_seq } = row;
  const nextEra = maxOf(BigInt(era), BigInt(recorded_era ?? 0), toEra(head_xid ?? '0')) + 1n;
  const begunEra = { era: String(nextEra), sign, last: head_xid === null ? null : `${head_xid}-${head_seq}` };
  await client.query('select evidence_begin_era($1)', [begunEra.era]);
  if (row.mark === loadedMark) await client.query('comment on table schema_migrations is null');
  const db = {
    query: async <R extends object>(text: string, values?: unknown[]) => (await client.query<R>(text, values)).rows,
    redact: createRedactor(),
    markEvidenceWritten: () => {},
  };
  const summary = `The database was restored. New facts are in era ${begunEra.era}.`;
  await recordEvidence(db, [
    { at: row.now, layer: 'store', kind: 'evidence.restored', summary, data: { ...begunEra } },
  ]);
  return begunEra;
}

/** Returns the new era, or undefined if the database was not restored. */
export async function beginEraIfRestored(client: Client): Promise<BegunEra | undefined> {
  const row = await readEraState(client);
  const sign = findRestoreSign(row);
  return sign && beginEra(client, row, sign);
}

/** Whether the schema has eras. Migration 0058 adds them. */
export async function hasEras(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ is_present: boolean }>(
    `select to_regclass('public.evidence_eras') is not null as is_present`,
  );
  return rows[0]?.is_present === true;
}

/** Begins an era because the database is known to be restored, whatever it shows. */
export const beginEraFor = async (client: Client, sign: RestoreSign): Promise<BegunEra> =>
  beginEra(client, await readEraState(client), sign);

/** Leaves the sign `backup_loaded` in an earlier schema, for the start that migrates it. */
export const markLoadedBackup = (client: Client): Promise<unknown> =>
  client.query(`comment on table schema_migrations is '${loadedMark}'`);
