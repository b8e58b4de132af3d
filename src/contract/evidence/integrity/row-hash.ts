/**
 * Hashes an evidence row. Uses the exact text from the database, because parsing could lose digits.
 */
import { createHash } from 'node:crypto';

/**
 * An evidence row as text. `at` is seconds since 1970 with microseconds; `data` and `actor` are
 * JSON text.
 */
export interface RowText {
  xid: string;
  seq: string;
  at: string;
  layer: string;
  kind: string;
  summary: string;
  data: string;
  actor: string | null;
  node_id: string | null;
  node_instance_id: string | null;
  correlation_id: string | null;
  allocation_id: string | null;
  workflow_id: string | null;
  origin: string;
}

/**
 * Every column except the cursor, in this order. The cursor enters the chain next to the hash, so
 * that a moved row is still recognized. Null columns are omitted: a nullable column added later
 * does not change older hashes.
 */
export const hashedColumns = [
  'at',
  'layer',
  'kind',
  'summary',
  'data',
  'actor',
  'node_id',
  'node_instance_id',
  'correlation_id',
  'allocation_id',
  'workflow_id',
  'origin',
] as const satisfies readonly Exclude<keyof RowText, 'xid' | 'seq'>[];

/** Encodes name and text pairs as a JSON array; different rows never have the same encoding. */
export function encodeRow(row: RowText): string {
  const pairs: string[] = ['slipway row 1'];
  for (const column of hashedColumns) {
    const value = row[column];
    if (value !== null) pairs.push(column, value);
  }
  return JSON.stringify(pairs);
}

export const rowHash = (row: RowText): Buffer => createHash('sha256').update(encodeRow(row)).digest();

/** Microseconds since 1970, or 0 if the time is not finite. */
export function microseconds(at: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d{1,6}))?$/.exec(at);
  if (!match) return 0n;
  const [, sign, seconds = '0', fraction = ''] = match;
  const value = BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, '0'));
  return sign === '-' ? -value : value;
}
