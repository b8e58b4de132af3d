/**
 * Defines the position of a fact in commit order: `(xid, seq)`. The upper bits of `xid` hold an
 * era, the lower ones the id of the transaction, because ids start again in a restored dump and
 * after a lossy failover. The SQL functions are in migration 0058.
 */
import type { Queryable } from '../pg/database.ts';

export interface Cursor {
  xid: string;
  seq: string;
}

export const startCursor: Cursor = { xid: '0', seq: '0' };

export const formatCursor = (cursor: Cursor) => `${cursor.xid}-${cursor.seq}`;

/** Whether `cursor` comes after `other` in commit order. */
export const isAfter = (cursor: Cursor, other: Cursor): boolean =>
  cursor.xid === other.xid ? BigInt(cursor.seq) > BigInt(other.seq) : BigInt(cursor.xid) > BigInt(other.xid);

const highestXid = 2n ** 64n - 1n;
const highestSeq = 2n ** 63n - 1n;

export function parseCursor(text: string): Cursor | undefined {
  const match = /^(\d{1,20})-(\d{1,19})$/.exec(text);
  if (match?.[1] === undefined || match[2] === undefined) return undefined;
  const [, xid, seq] = match;
  return BigInt(xid) <= highestXid && BigInt(seq) <= highestSeq ? { xid, seq } : undefined;
}

/**
 * True if no running transaction can add a fact at or before this row. The planner inlines the
 * function, so the condition is as fast as a comparison with a constant.
 */
export const isSettledSql = 'xid < evidence_settled_below()';

const eraBits = 48n;

/** The era of a fact's `xid`. */
export const toEra = (xid: string): bigint => BigInt(xid) >> eraBits;

/** The first `xid` of an era. */
export const toFirstXid = (era: bigint): bigint => era << eraBits;

/** Returns the newest position before which no further fact can appear. */
export async function readHeadCursor(db: Pick<Queryable, 'query'>): Promise<Cursor> {
  const [row] = await db.query<Cursor>(
    `select xid::text as xid, seq::text as seq
     from evidence
     where ${isSettledSql}
     order by evidence.xid desc, evidence.seq desc
     limit 1`,
  );
  return row ?? startCursor;
}

async function isFromLostHistory(db: Pick<Queryable, 'query'>, cursor: Cursor): Promise<boolean> {
  const [row] = await db.query<{ below: string }>('select evidence_settled_below()::text as below', [], {
    prepared: true,
  });
  const below = row?.below ?? '0';
  // Readers get only settled facts, so a cursor of the present history is below `below`.
  if (toEra(cursor.xid) >= toEra(below)) return BigInt(cursor.xid) >= BigInt(below);
  if (cursor.xid === startCursor.xid) return false;
  const [last] = await db.query<Cursor>(
    `select xid::text as xid, seq::text as seq
     from evidence
     where xid < $1::xid8
     order by evidence.xid desc, evidence.seq desc
     limit 1`,
    [String(toFirstXid(toEra(cursor.xid) + 1n))],
  );
  return isAfter(cursor, last ?? startCursor);
}

export interface Resumption {
  /** A reader that continues here gets every new fact once. */
  cursor: Cursor;
  /**
   * The reader has read facts that this database does not have: it was restored, or a failover
   * lost its newest commits. The reader must read the present state again.
   */
  lost: boolean;
}

/** Returns where a reader that has read up to `cursor`, perhaps before a restore, continues. */
export async function resumeFrom(db: Pick<Queryable, 'query'>, cursor: Cursor): Promise<Resumption> {
  if (!(await isFromLostHistory(db, cursor))) return { cursor, lost: false };
  const head = await readHeadCursor(db);
  return { cursor: isAfter(cursor, head) ? head : cursor, lost: true };
}

export interface History {
  /** Rises with each restore and failover. */
  era: bigint;
  /** The system identifier of the PostgreSQL cluster. Null if the server does not show it. */
  cluster: string | null;
  /** The database lacks at least one of the facts. */
  lost: boolean;
  /** Where a reader of these facts continues: after the last one that is still there. */
  cursor: Cursor;
}

/**
 * Checks after a reconnect whether the database still has the last facts that the caller read.
 * Pass more than one: of two overlapping transactions, the one with the later position may have
 * committed first. Throws on a standby: a fact that is missing there may only be late.
 */
export async function checkHistory(db: Pick<Queryable, 'query'>, known: readonly Cursor[]): Promise<History> {
  const [row] = await db.query<Cursor & { below: string; cluster: string | null; present: number }>(
    `select evidence_settled_below()::text as below, evidence_cluster() as cluster, count(fact.xid)::int as present,
       (array_agg(fact.xid::text order by known.place desc) filter (where fact.xid is not null))[1] as xid,
       (array_agg(fact.seq::text order by known.place desc) filter (where fact.xid is not null))[1] as seq
     from unnest($1::text[], $2::bigint[]) with ordinality as known(xid, seq, place)
     left join lateral (
       select evidence.xid, evidence.seq
       from evidence
       where evidence.xid = known.xid::xid8
         and evidence.seq = known.seq
       limit 1
     ) fact on true`,
    [known.map(({ xid }) => xid), known.map(({ seq }) => seq)],
  );
  const { below = '0', cluster = null, present = 0, xid, seq } = row ?? {};
  return {
    era: toEra(below),
    cluster,
    lost: present < known.length,
    cursor: xid && seq ? { xid, seq } : await readHeadCursor(db),
  };
}
