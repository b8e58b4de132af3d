/** Selects the keys that sign tasks, and those that agents accept, by the times of each key. */
import { createPrivateKey, type KeyObject } from 'node:crypto';
import type { TaskKey } from '../../../contract/agent/agent.ts';
import type { Queryable } from '../../pg/database.ts';

export interface TaskKeyRow {
  kid: string;
  public_key: string;
  /** PEM. Deleted some time after the key retired. */
  private_key: string | null;
  created_at: Date;
  /** The key is announced before this time, and signs from then on until its successor signs. */
  signs_from: Date;
  /** Agents refuse the key from this time on. Null until a successor is announced. */
  retired_at: Date | null;
  endorsed_by: string | null;
  endorsement: string | null;
}

export interface SigningKey {
  row: TaskKeyRow;
  private_key: KeyObject;
}

export interface KeySet {
  findSigning(now_ms: number): SigningKey;
  /** The keys that agents accept: an announced one, the current one, and one not yet retired. */
  listAccepted(now_ms: number): TaskKey[];
  /**
   * The newest retired keys. Agents no longer accept them; their endorsements link an older key
   * that an agent knows to the present keys.
   */
  listFormer(now_ms: number): TaskKey[];
}

/**
 * Enough for four years at the default rotation. An agent that was offline for longer trusts new
 * keys by TLS and its credential alone.
 */
const maxFormer = 16;

export const listTaskKeys = (tx: Queryable): Promise<TaskKeyRow[]> =>
  tx.query<TaskKeyRow>('select * from signing_keys order by signs_from, kid');

const wireOf = ({ kid, public_key, retired_at, endorsed_by, endorsement }: TaskKeyRow): TaskKey => ({
  kid,
  public_key,
  ...(retired_at && { accepted_until: retired_at.toISOString() }),
  ...(endorsed_by && endorsement && { endorsed_by, endorsement }),
});

const isRetired = ({ retired_at }: TaskKeyRow, now_ms: number) => retired_at !== null && retired_at.getTime() <= now_ms;

/** Expects `rows` in the order of `signs_from`. */
export function createKeySet(rows: TaskKeyRow[]): KeySet {
  const usable = rows.flatMap((row): SigningKey[] =>
    row.private_key === null ? [] : [{ row, private_key: createPrivateKey(row.private_key) }],
  );
  const [first] = usable;
  if (!first) throw new Error('the installation has no key to sign tasks with');
  return {
    findSigning: (now_ms) => usable.findLast(({ row }) => row.signs_from.getTime() <= now_ms) ?? first,
    listAccepted: (now_ms) => rows.filter((row) => !isRetired(row, now_ms)).map(wireOf),
    listFormer: (now_ms) =>
      rows
        .filter((row) => isRetired(row, now_ms))
        .slice(-maxFormer)
        .map(wireOf),
  };
}
