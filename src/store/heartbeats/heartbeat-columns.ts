/**
 * Buffers heartbeats until the next flush, the latest per instance, one array per column. Columnar
 * buffers avoid promoting short-lived objects to the old generation; see README.md.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Redactor } from '../../base/redaction/redact.ts';

export interface Beat {
  node_instance_id: NodeInstanceId;
  received_ms: number;
  interval_seconds: number;
  stale_seconds: number;
  /**
   * Whether the server set the interval. A client that sets its own gets no extra silence when its
   * interval becomes shorter.
   */
  has_assigned_interval: boolean;
  /** The report without the status. */
  reported: Record<string, unknown> | null;
}

/** One heartbeat per index. */
export interface BeatRows {
  readonly has_assigned_interval: boolean;
  readonly ids: NodeInstanceId[];
  readonly received_ms: number[];
  readonly interval_ms: number[];
  readonly stale_ms: number[];
  /** JSON on one line, or the empty string. */
  readonly reported: string[];
}

export interface BeatColumns {
  readonly rows: BeatRows;
  add(beat: Beat): void;
  /** Adds rows again that could not be stored. Newer heartbeats of the same instance win. */
  putBack(rows: BeatRows): void;
}

const emptyRows = (has_assigned_interval: boolean): BeatRows => ({
  ...{ has_assigned_interval, ids: [], received_ms: [], interval_ms: [], stale_ms: [], reported: [] },
});

/** Redacts unless all values are numbers, as they mostly are. JSON escapes line breaks. */
function serialize(reported: Record<string, unknown> | null, redact: Redactor): string {
  if (reported === null) return '';
  const json = JSON.stringify(reported);
  for (const name in reported) if (typeof reported[name] !== 'number') return redact.json(json);
  return json;
}

const toMillis = (seconds: number) => Math.round(seconds * 1000);

export function createBeatColumns(hasAssigned: boolean, redact: Redactor): BeatColumns {
  const rows = emptyRows(hasAssigned);
  const { ids, received_ms, interval_ms, stale_ms, reported } = rows;
  const indexes = new Map<NodeInstanceId, number>();

  /**
   * Merges two heartbeats of one instance: the later time and interval, the latest report there is,
   * and the longer stale time where the server assigned the interval.
   */
  const put = (id: NodeInstanceId, received: number, interval: number, stale: number, report: string): void => {
    const index = indexes.get(id) ?? ids.length;
    const formerReceived = received_ms[index];
    if (formerReceived === undefined) {
      indexes.set(id, index);
      ids.push(id);
    }
    const isLater = formerReceived === undefined || received >= formerReceived;
    const formerStale = stale_ms[index] ?? 0;
    if (isLater) {
      received_ms[index] = received;
      interval_ms[index] = interval;
      stale_ms[index] = hasAssigned ? Math.max(stale, formerStale) : stale;
      reported[index] = report || (reported[index] ?? '');
    } else {
      stale_ms[index] = hasAssigned ? Math.max(stale, formerStale) : formerStale;
      reported[index] ||= report;
    }
  };

  return {
    rows,
    add(beat) {
      const { node_instance_id: id, received_ms: received, interval_seconds, stale_seconds } = beat;
      put(id, received, toMillis(interval_seconds), toMillis(stale_seconds), serialize(beat.reported, redact));
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

const mapColumns = (rows: BeatRows, each: <Value>(column: Value[]) => Value[]): BeatRows => ({
  has_assigned_interval: rows.has_assigned_interval,
  ids: each(rows.ids),
  received_ms: each(rows.received_ms),
  interval_ms: each(rows.interval_ms),
  stale_ms: each(rows.stale_ms),
  reported: each(rows.reported),
});

/** Splits into chunks of at most `maxRows`, in order of arrival. */
export const splitRows = (rows: BeatRows, maxRows: number): BeatRows[] =>
  Array.from({ length: Math.ceil(rows.ids.length / maxRows) }, (_, chunk) =>
    mapColumns(rows, (column) => column.slice(chunk * maxRows, (chunk + 1) * maxRows)),
  );

export function filterRows(rows: BeatRows, isWanted: (id: NodeInstanceId) => boolean): BeatRows {
  const kept = rows.ids.map(isWanted);
  return mapColumns(rows, (column) => column.filter((_, row) => kept[row]));
}
