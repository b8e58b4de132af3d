/** Compares the rows that were sealed with the rows that are there, and says what happened to each that differs. */
import { cursorOf, type Entry } from './entries.ts';

export interface SealedEntry extends Entry {
  partition: string;
}

/** A row fault. `cursor` is where the row was sealed; for an inserted row, where it is. */
export interface RowFault {
  code: 'row_deleted' | 'row_changed' | 'row_moved' | 'row_inserted';
  partition: string;
  cursor: string;
  /** Where the row is now, if it was moved. */
  moved_to: string | null;
  /** Content hash: of the sealed row, or of the inserted one. Pairs a deletion with an insertion elsewhere. */
  hash: string;
}

export interface Comparison {
  faults: RowFault[];
  matched: number;
  /** Sealed rows that are gone because their piece was cut. */
  cut: SealedEntry[];
}

const fault = (code: RowFault['code'], entry: SealedEntry, moved_to: string | null = null): RowFault => ({
  code,
  partition: entry.partition,
  cursor: cursorOf(entry),
  moved_to,
  hash: entry.hash.toString('hex'),
});

/** Removes each pair with equal keys from both lists and hands it to `onPair`. */
function pairUp(
  sealed: Set<SealedEntry>,
  present: Set<SealedEntry>,
  keyOf: (entry: SealedEntry) => string,
  onPair: (was: SealedEntry, is: SealedEntry) => void,
): void {
  const byKey = new Map<string, SealedEntry[]>();
  for (const entry of present) {
    const key = keyOf(entry);
    const list = byKey.get(key);
    if (list) list.push(entry);
    else byKey.set(key, [entry]);
  }
  for (const was of sealed) {
    const is = byKey.get(keyOf(was))?.shift();
    if (!is) continue;
    sealed.delete(was);
    present.delete(is);
    onPair(was, is);
  }
}

const hashKey = ({ hash }: SealedEntry) => hash.toString('latin1');

/** A cursor may be taken twice: a snapshot stands at the place of the fact that it replaces. So rows are paired, not looked up. */
export function compareRows(
  sealedRows: readonly SealedEntry[],
  presentRows: readonly SealedEntry[],
  wasCut: (entry: SealedEntry) => boolean,
): Comparison {
  const sealed = new Set(sealedRows);
  const present = new Set(presentRows);
  const faults: RowFault[] = [];
  let matched = 0;
  const intact = (entry: SealedEntry) => `${entry.partition} ${cursorOf(entry)} ${hashKey(entry)}`;
  pairUp(sealed, present, intact, () => matched++);
  // The content is somewhere else in this interval: the row was moved.
  pairUp(sealed, present, hashKey, (was, is) => faults.push(fault('row_moved', was, cursorOf(is))));
  const cut = [...sealed].filter(wasCut);
  for (const was of cut) sealed.delete(was);
  const place = (entry: SealedEntry) => `${entry.partition} ${cursorOf(entry)}`;
  pairUp(sealed, present, place, (was) => faults.push(fault('row_changed', was)));
  // The layer itself was changed: same place, other partition.
  pairUp(sealed, present, cursorOf, (was) => faults.push(fault('row_changed', was)));
  for (const was of sealed) faults.push(fault('row_deleted', was));
  for (const is of present) faults.push(fault('row_inserted', is));
  return { faults, matched, cut };
}
