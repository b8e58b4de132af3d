/**
 * The sealer hashes settled evidence rows in commit order and appends signed checkpoints. It runs
 * after the transactions that wrote the rows, so writers do not wait for it. One replica seals at a
 * time.
 */
import type { KeyRing } from '../../base/credentials/key-ring.ts';
import { type Entry, entryOf, packEntries } from '../../contract/evidence/integrity/entries.ts';
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { type Cursor, isAfter, isSettledSql } from '../evidence/commit-order.ts';
import type { Installation } from '../keys/installation.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { createChainWriter, lockChain, tryLockChain } from './checkpoints.ts';
import { readRowsAt, rowTextColumns } from './row-text.ts';
import { createEvidenceSigner } from './signer.ts';

/**
 * The most rows of one checkpoint, unless more rows share one cursor. A fault in a segment affects
 * only its rows.
 */
export const maxBatchRows = 1_000;

export interface Cut {
  layer: string;
  piece: string;
  before: Date;
}

export interface Sealer {
  /** Seals one batch. `more` is true if further rows wait to be sealed. */
  sealBatch(now: Date): Promise<{ rows: number; more: boolean }>;
  /**
   * Runs `insert`, which writes rows at older positions, and seals them in the same transaction.
   * Returns the number of rows.
   */
  sealLate(tx: Transaction, insert: () => Promise<RowText[]>, now: Date): Promise<number>;
  /**
   * Runs `drop`, which returns the number of dropped rows, and signs that number. Returns undefined
   * without dropping anything if the partition has unsealed rows.
   */
  sealCut(tx: Transaction, cut: Cut, drop: () => Promise<number>, now: Date): Promise<number | undefined>;
}

const settledAfter = `
  select ${rowTextColumns}
  from evidence
  where (xid, seq) > ($1::xid8, $2::bigint)
    -- A running transaction may still add rows at or after its own id.
    and ${isSettledSql}
  order by evidence.xid, evidence.seq
  limit ${maxBatchRows + 1}`;

const toCursor = ({ xid, seq }: RowText): Cursor => ({ xid, seq });

/**
 * Leaves out the rows of the last cursor if the batch would split them. Rows can share a cursor,
 * and the next batch begins after the last cursor of this one.
 */
function takeWholeCursors(rows: RowText[]): RowText[] {
  const firstBeyond = rows[maxBatchRows];
  if (!firstBeyond) return rows;
  return rows.filter(({ xid, seq }) => xid !== firstBeyond.xid || seq !== firstBeyond.seq);
}

/** Reads one batch. A cursor with more rows than a batch is a batch of its own. */
async function readBatch(tx: Transaction, through: Cursor): Promise<{ rows: RowText[]; more: boolean }> {
  const read = await tx.query<RowText>(settledAfter, [through.xid, through.seq], { prepared: true });
  const [first] = read;
  const whole = takeWholeCursors(read);
  const rows = first && whole.length === 0 ? await readRowsAt(tx, toCursor(first)) : whole;
  return { rows, more: read.length > maxBatchRows };
}

function groupByPartition(rows: readonly RowText[]): Map<string, Entry[]> {
  const entries = new Map<string, Entry[]>();
  for (const row of rows) {
    const list = entries.get(row.layer);
    if (list) list.push(entryOf(row));
    else entries.set(row.layer, [entryOf(row)]);
  }
  return entries;
}

export function createSealer(options: {
  db: Database;
  key_ring: KeyRing;
  installation: Pick<Installation, 'installation_id'>;
}): Sealer {
  const { db } = options;
  const chain = createChainWriter(createEvidenceSigner(options.key_ring), options.installation);
  return {
    sealBatch: (now) =>
      db.transaction(async (tx) => {
        if (!(await tryLockChain(tx))) return { rows: 0, more: false };
        const start = await chain.begin(tx);
        const { through } = start.end;
        const { rows, more } = await readBatch(tx, through);
        const last = rows.at(-1);
        // Report a lost checkpoint immediately, even if there is nothing new to seal.
        if (!last && !start.lost) return { rows: 0, more: false };
        const draft = { through: last ? toCursor(last) : through, entries: groupByPartition(rows) };
        await chain.append(tx, start, { kind: 'rows', ...draft }, now);
        return { rows: rows.length, more };
      }),
    async sealLate(tx, insert, now) {
      // Lock before the rows are written, so that no concurrent batch seals past their position
      // without them.
      await lockChain(tx);
      const start = await chain.begin(tx);
      const { through } = start.end;
      const written = await insert();
      // Rows after the sealed position are sealed by a later batch.
      const late = written.filter((row) => !isAfter(toCursor(row), through));
      if (late.length === 0) return written.length;
      const entries = groupByPartition(late);
      const { position } = await chain.append(tx, start, { kind: 'late', through, entries }, now);
      await tx.query(
        `insert into evidence_late_rows (checkpoint, layer, xid, seq, entry)
         select $1, layer, xid::xid8, seq, entry
         from unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[]) as late(layer, xid, seq, entry)`,
        [
          position,
          late.map(({ layer }) => layer),
          late.map(({ xid }) => xid),
          late.map(({ seq }) => seq),
          late.map((row) => packEntries([entryOf(row)])),
        ],
      );
      return written.length;
    },
    async sealCut(tx, { layer, piece, before }, drop, now) {
      await lockChain(tx);
      const start = await chain.begin(tx);
      const { through } = start.end;
      const unsealed = await tx.query(
        `select from evidence
         where layer = $1
           and at < $2
           and (xid, seq) > ($3::xid8, $4::bigint)
         limit 1`,
        [layer, before, through.xid, through.seq],
      );
      if (unsealed.length > 0) return undefined;
      const rows = await drop();
      const cut = { partition: layer, piece, before: before.toISOString(), rows };
      await chain.append(tx, start, { kind: 'cut', through, entries: new Map(), cut }, now);
      return rows;
    },
  };
}
