/**
 * The SQL that stores a chunk of heartbeats: one update, and an upsert for the rows that it left.
 * Liveness is judged by the time at which the server received a heartbeat, so a plain one changes
 * little else in its row.
 */
import { effectiveStaleSeconds } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { Transaction } from '../pg/database.ts';
import { encodeFloat8Array } from '../pg/number-array.ts';
import { type Beat, type BeatRows, createBeatColumns, filterRows } from './heartbeat-columns.ts';

/**
 * One parameter per column: ids and reports as joined text, times as binary float8 arrays in
 * milliseconds. Building and parsing ordinary array parameters cost more than storing the rows.
 *
 * Rows are sorted, so that two replicas lock them in the same order and never deadlock.
 */
const beatRows = `
  select
    id,
    to_timestamp(received / 1000) as at,
    (interval / 1000)::real as interval,
    (stale / 1000)::real as stale,
    reported::jsonb as reported
  from unnest(
    string_to_array($1, ' '),
    $2::float8[],
    $3::float8[],
    $4::float8[],
    string_to_array($5, E'\\n', '')
  ) as beat(id, received, interval, stale, reported)
  order by id collate "C"`;

/** Padding of a new row. Its first update drops it, so that the page keeps room for HOT updates. */
export const rowPadding = `repeat(' ', 140)`;

/** The SQL form of `patienceOf` (supervision/silent-nodes.ts). */
const patienceIn = (stale: string) => `greatest(0, floor(ln(${stale}) / ln(2)))::smallint`;

/**
 * A node may not have received a new, shorter interval. Until its next heartbeat it may stay silent
 * for as long as its former interval allowed ($6 intervals).
 *
 * The patience class is rewritten only if it is too high, or too low by more than one: with jitter
 * an interval may lie on both sides of a power of two, and a changed class also writes the index.
 */
const supervisionColumns = (newStale: string, former: string) => {
  const stale = `greatest(${newStale}, $6::real * ${former}.interval_seconds)`;
  const patience = patienceIn(stale);
  return `
      stale_seconds = ${stale},
      patience = case
        when ${patience} - ${former}.patience between 0 and 1 then ${former}.patience
        else ${patience}
      end,
      room = null`;
};

/** Drops a report from before the machine went to its present tenant (agents/clear-reports.ts). */
const reportColumn = (report: string, at: string, former: string) => `
      reported = case
        when ${at} < ${former}.reports_since then ${former}.reported
        -- A plain heartbeat keeps the last report.
        else coalesce(${report}, ${former}.reported)
      end`;

/**
 * Nearly every instance has a row, and a plain update costs a quarter less than an upsert. Returns
 * the ids that were not updated.
 */
const updateSql = `
  with stored as (
    update heartbeats kept set
      last_seen_at = beat.at,
      interval_seconds = beat.interval,${reportColumn('beat.reported', 'beat.at', 'kept')},${supervisionColumns('beat.stale', 'kept')}
    from (${beatRows}) beat
    where kept.node_instance_id = beat.id
      -- Another replica may have stored a later heartbeat.
      and kept.last_seen_at < beat.at
    returning beat.id)
  select id
  from unnest(string_to_array($1, ' ')) as beat(id)
  -- "not in" hashes the subquery once; "not exists" compares each id with each.
  where id not in (select id from stored)`;

/** For the ids that the update left: without a row, with a later heartbeat, or unknown. */
const upsertSql = `
  insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, patience, reported, room)
  select id, at, interval, stale, ${patienceIn('stale')}, reported, ${rowPadding}
  from (${beatRows}) beat
  where exists (select 1 from instances where instances.node_instance_id = beat.id)
  on conflict (node_instance_id) do update set
      last_seen_at = excluded.last_seen_at,
      interval_seconds = excluded.interval_seconds,${supervisionColumns('excluded.stale_seconds', 'heartbeats')},${reportColumn('excluded.reported', 'excluded.last_seen_at', 'heartbeats')}
  where heartbeats.last_seen_at < excluded.last_seen_at`;

/** The silence allowed until a node receives a shorter interval, counted in former intervals. */
const formerIntervals = (hasAssigned: boolean) => (hasAssigned ? effectiveStaleSeconds(0, 1) : 0);

const parametersOf = (rows: BeatRows): unknown[] => [
  rows.ids.join(' '),
  encodeFloat8Array(rows.received_ms),
  encodeFloat8Array(rows.interval_ms),
  encodeFloat8Array(rows.stale_ms),
  rows.reported.join('\n'),
  formerIntervals(rows.has_assigned_interval),
];

export async function storeRows(tx: Transaction, rows: BeatRows): Promise<void> {
  if (rows.ids.length === 0) return;
  const parameters = parametersOf(rows);
  const remaining = await tx.query<{ id: string }>(updateSql, parameters);
  if (remaining.length === 0) return;
  const ids = new Set<string>(remaining.map(({ id }) => id));
  const areAllRemaining = ids.size === rows.ids.length;
  await tx.query(upsertSql, areAllRemaining ? parameters : parametersOf(filterRows(rows, (id) => ids.has(id))));
}

export async function storeBeats(tx: Transaction, beats: readonly Beat[]): Promise<void> {
  for (const hasAssigned of [true, false]) {
    const columns = createBeatColumns(hasAssigned, tx.redact);
    for (const beat of beats) if (beat.has_assigned_interval === hasAssigned) columns.add(beat);
    await storeRows(tx, columns.rows);
  }
}
