/**
 * Appends checkpoints. The caller must hold the chain lock, so that one replica writes at a time.
 */
import {
  type CheckpointBody,
  type CheckpointKind,
  checkpointHash,
  encodeCheckpoint,
  readCheckpoint,
  signCheckpoint,
} from '../../contract/evidence/integrity/checkpoint.ts';
import { chainHead, cursorOf, type Entry, emptyHead, packEntries } from '../../contract/evidence/integrity/entries.ts';
import { type Cursor, formatCursor, parseCursor, startCursor } from '../evidence/commit-order.ts';
import type { Installation } from '../keys/installation.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type EvidenceSigner, exportPublicKey } from './signer.ts';

export interface ChainEnd {
  position: number;
  hash: string;
  through: Cursor;
  /** The hash of the lost checkpoint that this checkpoint reports. */
  reports_lost?: string;
}

export interface Draft {
  kind: CheckpointKind;
  through: Cursor;
  /** The entries of each partition in chain order. No list is empty. */
  entries: ReadonlyMap<string, Entry[]>;
  cut?: CheckpointBody['cut'];
}

const chainLock = 7_213_004;
const emptyChain: ChainEnd = { position: 0, hash: '', through: startCursor };

/** Waits for the lock. `tryLockChain` does not wait. */
export async function lockChain(tx: Transaction): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [chainLock]);
}

/**
 * Returns whether this transaction got the lock. Also sets planner settings, so that one cached
 * plan, which uses the index of each partition, serves every cursor.
 */
export async function tryLockChain(tx: Transaction): Promise<boolean> {
  const [row] = await tx.query<{ locked: boolean }>(
    `select pg_try_advisory_xact_lock($1) as locked,
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true)`,
    [chainLock],
    { prepared: true },
  );
  return row?.locked ?? false;
}

const toChainEnd = (body: string): ChainEnd => {
  const read = readCheckpoint(body);
  const through = read && parseCursor(read.through);
  if (!read || !through)
    throw new Error('the newest evidence checkpoint is unreadable (damaged or changed); run slipway verify-store');
  return {
    position: read.position,
    hash: checkpointHash(body),
    through,
    ...(read.lost && { reports_lost: read.lost.hash }),
  };
};

export async function readChainEnd(db: Queryable): Promise<ChainEnd> {
  const [row] = await db.query<{ body: string }>(
    'select body from evidence_checkpoints order by position desc limit 1',
    [],
    { prepared: true },
  );
  return row ? toChainEnd(row.body) : emptyChain;
}

/** Reads how many rows of each partition are sealed, and the head of its chain. */
async function readHeads(tx: Transaction, layers: string[]): Promise<Map<string, { rows: number; head: string }>> {
  const rows = await tx.query<{ layer: string; body: string }>(
    `select wanted.layer, checkpoint.body
     from unnest($1::text[]) as wanted(layer)
     cross join lateral (
       select segment.checkpoint
       from evidence_segments segment
       where segment.layer = wanted.layer
       order by segment.checkpoint desc
       limit 1
     ) newest
     join evidence_checkpoints checkpoint on checkpoint.position = newest.checkpoint`,
    [layers],
    { prepared: true },
  );
  return new Map(
    rows.flatMap(({ layer, body }) => {
      const segment = readCheckpoint(body)?.segments.find(({ partition }) => partition === layer);
      return segment ? [[layer, { rows: segment.before + segment.rows, head: segment.head }] as const] : [];
    }),
  );
}

/** The present end of the chain, and the checkpoint that has disappeared, if any. */
export interface ChainStart {
  end: ChainEnd;
  lost: CheckpointBody['lost'];
}

const cursorAt = (entries: readonly Entry[], index: number): string => {
  const entry = entries.at(index);
  return entry ? cursorOf(entry) : '';
};

export interface ChainWriter {
  /** Call this before `append`, with the lock held. */
  begin(tx: Transaction): Promise<ChainStart>;
  append(tx: Transaction, start: ChainStart, draft: Draft, now: Date): Promise<ChainEnd>;
}

export function createChainWriter(
  signer: EvidenceSigner,
  installation: Pick<Installation, 'installation_id'>,
): ChainWriter {
  const introducedKids = new Set<string>();
  /**
   * The last end of the chain that this replica saw. If this checkpoint disappears, someone
   * truncated the table or restored an older database.
   */
  let remembered: ChainEnd | undefined;

  const isLost = async (tx: Transaction, end: ChainEnd, earlier: ChainEnd): Promise<boolean> => {
    if (earlier.hash === end.hash || end.reports_lost === earlier.hash) return false;
    const [row] = await tx.query<{ body: string }>('select body from evidence_checkpoints where position = $1', [
      earlier.position,
    ]);
    return row === undefined || checkpointHash(row.body) !== earlier.hash;
  };

  const write = async (tx: Transaction, body: CheckpointBody): Promise<ChainEnd> => {
    const key = signer.byId(body.kid);
    if (!key) throw new Error(`the key file has no key ${body.kid}`);
    const text = encodeCheckpoint(body);
    const through = parseCursor(body.through) ?? startCursor;
    await tx.query(
      `insert into evidence_checkpoints (position, kind, through_xid, through_seq, body, signature)
       values ($1, $2, $3::xid8, $4::bigint, $5, $6)`,
      [body.position, body.kind, through.xid, through.seq, text, signCheckpoint(text, key.private_key)],
      { prepared: true },
    );
    return { position: body.position, hash: checkpointHash(text), through };
  };

  const createBody = (end: ChainEnd, kind: CheckpointKind, kid: string, now: Date): CheckpointBody => ({
    type: 'slipway.checkpoint.1',
    installation: installation.installation_id,
    position: end.position + 1,
    previous: end.position === 0 ? null : end.hash,
    at: now.toISOString(),
    kind,
    kid,
    after: formatCursor(end.through),
    through: formatCursor(end.through),
    segments: [],
  });

  /**
   * Appends a checkpoint that introduces the current key, if no checkpoint has introduced it yet.
   * A former key signs the checkpoint if the ring still has one, else the new key signs it.
   */
  const introduceKey = async (tx: Transaction, end: ChainEnd, now: Date): Promise<ChainEnd> => {
    const { kid, public_key } = signer.current();
    if (introducedKids.has(kid)) return end;
    const known = new Set((await tx.query<{ kid: string }>('select kid from evidence_keys')).map((each) => each.kid));
    if (known.has(kid)) {
      introducedKids.add(kid);
      return end;
    }
    const former = signer.all().find((key) => known.has(key.kid));
    const key = { kid, public_key: exportPublicKey(public_key) };
    const checkpoint = await write(tx, { ...createBody(end, 'key', former?.kid ?? kid, now), key });
    await tx.query('insert into evidence_keys (kid, public_key, checkpoint, introduced_at) values ($1, $2, $3, $4)', [
      kid,
      key.public_key,
      checkpoint.position,
      now,
    ]);
    return checkpoint;
  };

  return {
    async begin(tx) {
      const end = await readChainEnd(tx);
      if (remembered && remembered.position > 0 && (await isLost(tx, end, remembered)))
        return { end, lost: { position: remembered.position, hash: remembered.hash } };
      remembered = end;
      return { end, lost: undefined };
    },
    async append(tx, start, draft, now) {
      const end = await introduceKey(tx, start.end, now);
      const heads = await readHeads(tx, [...draft.entries.keys()]);
      const body = createBody(end, draft.kind, signer.current().kid, now);
      body.through = formatCursor(draft.through);
      if (start.lost) body.lost = start.lost;
      if (draft.cut) body.cut = draft.cut;
      const packed: Buffer[] = [];
      for (const [partition, entries] of draft.entries) {
        const bytes = packEntries(entries);
        packed.push(bytes);
        const { rows, head } = heads.get(partition) ?? { rows: 0, head: emptyHead };
        body.segments.push({
          partition,
          before: rows,
          rows: entries.length,
          first: cursorAt(entries, 0),
          last: cursorAt(entries, -1),
          from: head,
          head: chainHead(head, bytes),
        });
      }
      const written = await write(tx, body);
      if (packed.length > 0)
        await tx.query(
          `insert into evidence_segments (layer, checkpoint, entries)
           select layer, $1, entries
           from unnest($2::text[], $3::bytea[]) as each(layer, entries)`,
          [written.position, [...draft.entries.keys()], packed],
          { prepared: true },
        );
      return written;
    },
  };
}
