/** How beats are stored: many by one statement. Liveness is judged on the server's receive time, so that is all a plain beat carries to the table. */
import { effectiveStaleSeconds } from '../../lifecycle/deadlines/budgets.ts';
import type { Transaction } from '../pg/database.ts';
import { float8Array } from '../pg/number-array.ts';
import { type Beat, type BeatRows, beatColumns, rowsOf } from './heartbeat-columns.ts';

/**
 * Each column is one parameter, words as one text and numbers in the database's own form: making and reading an array of that many parameters
 * costs more than storing them. All of them are milliseconds.
 *
 * The interval in the row is the one that the node was last told, by whichever replica. A shorter one that it is told now may
 * not reach it, so it is still allowed the silence of the former, $6 times as long, until it has beaten once more.
 *
 * In the order of their instances, so that two who store at once wait for each other and not in a circle.
 */
const beatRows = `
  select id, to_timestamp(received / 1000) as at, (interval / 1000)::real as interval, (stale / 1000)::real as stale, reported::jsonb as reported
  from unnest(string_to_array($1, ' '), $2::float8[], $3::float8[], $4::float8[], string_to_array($5, E'\\n', '')) as beat(id, received, interval, stale, reported)
  order by id collate "C"`;

/** What a row is born with and its first beat gives up, so that pages stay half empty: migration 0029. */
export const room = `repeat(' ', 140)`;

/** See `patienceOf`. */
const patienceIn = (stale: string) => `greatest(0, floor(ln(${stale}) / ln(2)))::smallint`;

/**
 * A row keeps its class while that is the right one or the next lower: an interval with its jitter may lie on both sides of a power of two,
 * and a class that changes takes the index along.
 */
const changed = (stale_now: string, before: string) => {
  const stale = `greatest(${stale_now}, $6::real * ${before}.interval_seconds)`;
  const right = patienceIn(stale);
  return `stale_seconds = ${stale}, patience = case when ${right} - ${before}.patience between 0 and 1 then ${before}.patience else ${right} end, room = null`;
};

/** A report from before the machine went to its present tenant is dropped (handover.ts). A plain beat keeps the last report. */
const reportedNow = (report: string, at: string, before: string) =>
  `case when ${at} < ${before}.reports_since then ${before}.reported else coalesce(${report}, ${before}.reported) end`;

/** Nearly all have beaten before, and only to change what is there is cheaper by a quarter. Gives those of whom nothing was changed; `not in` looks
 * them up in a table of what was, where `not exists` would compare each with each. */
const update = `
  with stored as (
    update heartbeats kept set last_seen_at = beat.at, interval_seconds = beat.interval, reported = ${reportedNow('beat.reported', 'beat.at', 'kept')},
      ${changed('beat.stale', 'kept')}
    from (${beatRows}) beat where kept.node_instance_id = beat.id and kept.last_seen_at < beat.at returning beat.id)
  select id from unnest(string_to_array($1, ' ')) as beat(id) where id not in (select id from stored)`;

/** For whoever beats for the first time, or was heard later already, or is no more. */
const upsert = `
  insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, patience, reported, room)
  select id, at, interval, stale, ${patienceIn('stale')}, reported, ${room} from (${beatRows}) beat
  where exists (select 1 from instances where instances.node_instance_id = beat.id)
  on conflict (node_instance_id) do update set last_seen_at = excluded.last_seen_at, interval_seconds = excluded.interval_seconds,
    ${changed('excluded.stale_seconds', 'heartbeats')}, reported = ${reportedNow('excluded.reported', 'excluded.last_seen_at', 'heartbeats')}
  where heartbeats.last_seen_at < excluded.last_seen_at`;

/** How many of its former intervals one is allowed that is told a shorter one. */
const intervalsAllowed = (hasAssigned: boolean) => (hasAssigned ? effectiveStaleSeconds(0, 1) : 0);

const parametersOf = ({
  has_assigned_interval,
  ids,
  received_ms,
  interval_ms,
  stale_ms,
  reported,
}: BeatRows): unknown[] => [
  ids.join(' '),
  float8Array(received_ms),
  float8Array(interval_ms),
  float8Array(stale_ms),
  reported.join('\n'),
  intervalsAllowed(has_assigned_interval),
];

export async function storeRows(tx: Transaction, rows: BeatRows): Promise<void> {
  if (rows.ids.length === 0) return;
  const parameters = parametersOf(rows);
  const left = await tx.query<{ id: string }>(update, parameters);
  if (left.length === 0) return;
  const ids = new Set<string>(left.map(({ id }) => id));
  await tx.query(upsert, ids.size === rows.ids.length ? parameters : parametersOf(rowsOf(rows, (id) => ids.has(id))));
}

export async function storeBeats(tx: Transaction, beats: readonly Beat[]): Promise<void> {
  for (const hasAssigned of [true, false]) {
    const columns = beatColumns(hasAssigned, tx.redact);
    for (const beat of beats) if (beat.has_assigned_interval === hasAssigned) columns.add(beat);
    await storeRows(tx, columns.rows);
  }
}
