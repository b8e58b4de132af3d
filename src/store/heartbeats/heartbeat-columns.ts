/**
 * Beats that wait to be stored, the last of each instance, in the columns that are stored. Nothing is kept for each but numbers and a text:
 * objects that live until the next flush are carried through the heap on their way, which cost as much as to take the beat.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Redactor } from '../../base/redaction/redact.ts';

export interface Beat {
  node_instance_id: NodeInstanceId;
  received_ms: number;
  interval_seconds: number;
  stale_seconds: number;
  /**
   * Whether the server set its interval. A program that keeps a pace of its own gets no extra
   * silence when its interval becomes shorter.
   */
  has_assigned_interval: boolean;
  /** What the node said of itself, besides its claim. */
  reported: Record<string, unknown> | null;
}

/** Row by row, one beat. */
export interface BeatRows {
  readonly has_assigned_interval: boolean;
  readonly ids: NodeInstanceId[];
  readonly received_ms: number[];
  readonly interval_ms: number[];
  readonly stale_ms: number[];
  /** JSON on one line, or nothing. */
  readonly reported: string[];
}

export interface BeatColumns {
  readonly rows: BeatRows;
  add(beat: Beat): void;
  /** Rows that could not be stored, beneath whatever has come since. */
  putBack(rows: BeatRows): void;
}

const noRows = (has_assigned_interval: boolean): BeatRows => ({
  ...{ has_assigned_interval, ids: [], received_ms: [], interval_ms: [], stale_ms: [], reported: [] },
});

/** Numbers keep no secrets, and most beats say nothing else of themselves. Breaks of lines are escaped in JSON, so it is one line. */
function written(reported: Record<string, unknown> | null, redact: Redactor): string {
  if (reported === null) return '';
  const json = JSON.stringify(reported);
  for (const name in reported) if (typeof reported[name] !== 'number') return redact.json(json);
  return json;
}

const millis = (seconds: number) => Math.round(seconds * 1000);

export function beatColumns(hasAssigned: boolean, redact: Redactor): BeatColumns {
  const rows = noRows(hasAssigned);
  const { ids, received_ms, interval_ms, stale_ms, reported } = rows;
  const placeOf = new Map<NodeInstanceId, number>();

  /** Of two beats of an instance the later counts; what the node said of itself is kept until it says something newer, and the longer patience of both. */
  const put = (id: NodeInstanceId, received: number, interval: number, stale: number, said: string): void => {
    const place = placeOf.get(id) ?? ids.length;
    const before = received_ms[place];
    if (before === undefined) {
      placeOf.set(id, place);
      ids.push(id);
    }
    const isLater = before === undefined || received >= before;
    const allowed = stale_ms[place] ?? 0;
    if (isLater) {
      received_ms[place] = received;
      interval_ms[place] = interval;
      stale_ms[place] = hasAssigned ? Math.max(stale, allowed) : stale;
      reported[place] = said || (reported[place] ?? '');
    } else {
      stale_ms[place] = hasAssigned ? Math.max(stale, allowed) : allowed;
      reported[place] ||= said;
    }
  };

  return {
    rows,
    add(beat) {
      const { node_instance_id: id, received_ms: received, interval_seconds, stale_seconds } = beat;
      put(id, received, millis(interval_seconds), millis(stale_seconds), written(beat.reported, redact));
    },
    putBack(former) {
      for (const [row, id] of former.ids.entries())
        put(
          id,
          former.received_ms[row] ?? 0,
          former.interval_ms[row] ?? 0,
          former.stale_ms[row] ?? 0,
          former.reported[row] ?? '',
        );
    },
  };
}

const mapped = (rows: BeatRows, each: <Value>(column: Value[]) => Value[]): BeatRows => ({
  has_assigned_interval: rows.has_assigned_interval,
  ids: each(rows.ids),
  received_ms: each(rows.received_ms),
  interval_ms: each(rows.interval_ms),
  stale_ms: each(rows.stale_ms),
  reported: each(rows.reported),
});

/** In pieces of at most so many rows, in the order in which they came. */
export const piecesOf = (rows: BeatRows, most: number): BeatRows[] =>
  Array.from({ length: Math.ceil(rows.ids.length / most) }, (_, piece) =>
    mapped(rows, (column) => column.slice(piece * most, (piece + 1) * most)),
  );

/** Those of whom that is true. */
export function rowsOf(rows: BeatRows, which: (id: NodeInstanceId) => boolean): BeatRows {
  const kept = rows.ids.map(which);
  return mapped(rows, (column) => column.filter((_, row) => kept[row]));
}
