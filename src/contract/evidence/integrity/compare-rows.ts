/** Compares sealed rows with present rows and reports each difference. */
import { cursorOf, type Entry } from './entries.ts';

export interface SealedEntry extends Entry {
  partition: string;
}

/** A row fault. `cursor` is the row's sealed position; for an inserted row, its present one. */
export interface RowFault {
  code: 'row_deleted' | 'row_changed' | 'row_moved' | 'row_inserted';
  partition: string;
  cursor: string;
  /** The row's present position, if it was moved. */
  moved_to: string | null;
  /**
   * The content hash of the sealed or the inserted row. It shows that a deleted row was inserted
   * elsewhere.
   */
  hash: string;
}

export interface Comparison {
  faults: RowFault[];
  matched: number;
  /** Sealed rows that are missing because of a cut. */
  cut: SealedEntry[];
}

const fault = (code: RowFault['code'], entry: SealedEntry, moved_to: string | null = null): RowFault => ({
  code,
  partition: entry.partition,
  cursor: cursorOf(entry),
  moved_to,
  hash: entry.hash.toString('hex'),
});

/** Removes each pair with equal keys from both lists and passes it to `onPair`. */
function pairUp(
  sealed: Set<SealedEntry>,
  present: Set<SealedEntry>,
  keyOf: (entry: SealedEntry) => string,
  onPair: (sealedRow: SealedEntry, presentRow: SealedEntry) => void,
): void {
  const byKey = new Map<string, SealedEntry[]>();
  for (const entry of present) {
    const key = keyOf(entry);
    const list = byKey.get(key);
    if (list) list.push(entry);
    else byKey.set(key, [entry]);
  }
  for (const sealedRow of sealed) {
    const presentRow = byKey.get(keyOf(sealedRow))?.shift();
    if (!presentRow) continue;
    sealed.delete(sealedRow);
    present.delete(presentRow);
    onPair(sealedRow, presentRow);
  }
}

const hashKey = ({ hash }: SealedEntry) => hash.toString('latin1');

/**
 * Pairs rows instead of looking them up by cursor, because a snapshot has the same cursor as the
 * fact that it replaces.
 */
export function compareRows(
  sealedRows: readonly SealedEntry[],
  presentRows: readonly SealedEntry[],
  wasCut: (entry: SealedEntry) => boolean,
): Comparison {
  const sealed = new Set(sealedRows);
  const present = new Set(presentRows);
  const faults: RowFault[] = [];
  let matched = 0;
  const identityKey = (entry: SealedEntry) => `${entry.partition} ${cursorOf(entry)} ${hashKey(entry)}`;
  pairUp(sealed, present, identityKey, () => matched++);
  // The same content at another position: the row was moved.
  pairUp(sealed, present, hashKey, (row, moved) => faults.push(fault('row_moved', row, cursorOf(moved))));
  const cut = [...sealed].filter(wasCut);
  for (const row of cut) sealed.delete(row);
  const positionKey = (entry: SealedEntry) => `${entry.partition} ${cursorOf(entry)}`;
  pairUp(sealed, present, positionKey, (row) => faults.push(fault('row_changed', row)));
  // Same position, other partition: the layer was changed.
  pairUp(sealed, present, cursorOf, (row) => faults.push(fault('row_changed', row)));
  for (const row of sealed) faults.push(fault('row_deleted', row));
  for (const row of present) faults.push(fault('row_inserted', row));
  return { faults, matched, cut };
}
