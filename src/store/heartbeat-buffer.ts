/**
 * Heartbeats cost no synchronous write: they are coalesced per instance and flushed in one statement. Liveness is judged
 * on the server's receive time, so that is all a plain beat carries to the table.
 */
import type { Clock } from '../base/clock.ts';
import { moment, pause } from '../base/clock.ts';
import type { NodeInstanceId } from '../base/ids.ts';
import type { Redactor } from '../base/redact.ts';
import { effectiveStaleSeconds } from '../lifecycle/budgets.ts';
import type { Database, Transaction } from './database.ts';

/** JSON of nothing but numbers, which keep no secrets. Most beats say nothing else of themselves, and are kept as what is stored. */
export type NumbersJson = string & { readonly holds: 'numbers' };

export interface Beat {
  node_instance_id: NodeInstanceId;
  received_ms: number;
  interval_seconds: number;
  stale_seconds: number;
  /** Whether it was told its interval. Who keeps a pace of its own was never told the former one either, and owes it nothing. */
  told: boolean;
  /** What the node said of itself, besides its claim. */
  reported: Record<string, unknown> | NumbersJson | null;
}

export interface HeartbeatBuffer {
  add(beat: Beat): void;
  /** How many were added since the start. */
  added(): number;
  flush(): Promise<void>;
  /** For whoever brings many at once: resolves when there is room for more, or after a moment where nothing can be stored. */
  room(): Promise<void>;
  /** For how long the oldest beat of the last flush had waited when it was stored. A store that is away stores nothing, late or not. */
  storedAfterMs(): number;
  /** Every beat received before this moment is in the table. */
  flushedThrough(): Date;
  flushedThroughMs(): number;
  stop(): Promise<void>;
}

const flushEveryMs = 200;
/** Of one statement: the first of many beats need not wait for the last. */
const rowsAtOnce = 2_500;
/** So many statements at a time: the database has more than one processor, and a flood of beats keeps one busy all the time. */
const statementsAtOnce = 2;
/** So far behind, whoever brings many beats at once waits until they are stored: it brings no more meanwhile. */
const patienceMs = 300;
const mostWaitMs = 1_000;

/**
 * Each column is one text: making and reading an array of that many parameters costs more than storing them. Times are whole
 * numbers, of microseconds after $7 and of milliseconds, which are written and read several times as fast as fractions.
 *
 * The interval in the row is the one that the node was last told, by whichever replica. A shorter one that it is told now may
 * not reach it, so it is still allowed the silence of the former, $6 times as long, until it has beaten once more.
 *
 * In the order of their instances, so that two who store at once wait for each other and not in a circle.
 */
const told = `
  select id, to_timestamp(($7::double precision * 1000 + received) / 1e6) as at, interval::real / 1000 as interval, stale::real / 1000 as stale, reported::jsonb as reported
  from unnest(string_to_array($1, ' '), string_to_array($2, ' ')::bigint[], string_to_array($3, ' ')::bigint[],
    string_to_array($4, ' ')::bigint[], string_to_array($5, E'\\n', '')) as beat(id, received, interval, stale, reported)
  order by id collate "C"`;

/** See `patienceOf`; a machine that may be silent for longer is looked for seldomer. */
const patienceIn = (stale: string) => `greatest(0, floor(ln(${stale}) / ln(2)))::smallint`;

const allowed = (now: string, before: string) => `greatest(${now}, $6::real * ${before}.interval_seconds)`;
const changed = (now: string, before: string) =>
  `stale_seconds = ${allowed(now, before)}, patience = ${patienceIn(allowed(now, before))}`;

/** Nearly all have beaten before, and only to change what is there is cheaper by a quarter. Gives those of whom nothing was changed; `not in` looks
 * them up in a table of what was, where `not exists` would compare each with each. */
const update = `
  with stored as (
    update heartbeats kept set last_seen_at = beat.at, interval_seconds = beat.interval, reported = coalesce(beat.reported, kept.reported),
      ${changed('beat.stale', 'kept')}
    from (${told}) beat where kept.node_instance_id = beat.id and kept.last_seen_at < beat.at returning beat.id)
  select id from unnest(string_to_array($1, ' ')) as beat(id) where id not in (select id from stored)`;

/** For whoever beats for the first time, or was heard later already, or is no more. */
const upsert = `
  insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, patience, reported)
  select id, at, interval, stale, ${patienceIn('stale')}, reported from (${told}) beat
  where exists (select 1 from instances where instances.node_instance_id = beat.id)
  on conflict (node_instance_id) do update set last_seen_at = excluded.last_seen_at, interval_seconds = excluded.interval_seconds,
    ${changed('excluded.stale_seconds', 'heartbeats')}, reported = coalesce(excluded.reported, heartbeats.reported)
  where heartbeats.last_seen_at < excluded.last_seen_at`;

/** Breaks of lines are escaped in JSON, so it is one line. */
const written = (reported: Beat['reported'], redact: Redactor): string => {
  if (reported === null || typeof reported === 'string') return reported ?? '';
  return redact.json(JSON.stringify(reported));
};

/** How many of its former intervals one is allowed that is told a shorter one. */
const patience = (told: boolean) => (told ? effectiveStaleSeconds(0, 1) : 0);

export async function storeBeats(tx: Transaction, beats: readonly Beat[]): Promise<void> {
  for (const told of [true, false])
    await storeAlike(
      tx,
      beats.filter((beat) => beat.told === told),
      patience(told),
    );
}

async function storeAlike(tx: Transaction, beats: readonly Beat[], intervals_allowed: number): Promise<void> {
  if (beats.length === 0) return;
  const left = await tx.query<{ id: string }>(update, columnsOf(beats, intervals_allowed, tx.redact));
  if (left.length === 0) return;
  const ids = new Set(left.map(({ id }) => id));
  const rest = beats.filter(({ node_instance_id }) => ids.has(node_instance_id));
  await tx.query(upsert, columnsOf(rest, intervals_allowed, tx.redact));
}

function columnsOf(beats: readonly Beat[], intervals_allowed: number, redact: Redactor): unknown[] {
  const from_ms = Math.floor(beats[0]?.received_ms ?? 0);
  const ids: string[] = [];
  const received: number[] = [];
  const intervals: number[] = [];
  const stales: number[] = [];
  const reports: string[] = [];
  for (const beat of beats) {
    ids.push(beat.node_instance_id);
    received.push(Math.round((beat.received_ms - from_ms) * 1000));
    intervals.push(Math.round(beat.interval_seconds * 1000));
    stales.push(Math.round(beat.stale_seconds * 1000));
    reports.push(written(beat.reported, redact));
  }
  return [
    ids.join(' '),
    received.join(' '),
    intervals.join(' '),
    stales.join(' '),
    reports.join('\n'),
    intervals_allowed,
    from_ms,
  ];
}

/** Of two beats of an instance the later counts; what the node said of itself is kept until it says something newer, and the longer patience of both. */
function later(a: Beat | undefined, b: Beat): Beat {
  if (!a) return b;
  const [earlier, newest] = a.received_ms <= b.received_ms ? [a, b] : [b, a];
  return {
    ...newest,
    stale_seconds: newest.told ? Math.max(newest.stale_seconds, earlier.stale_seconds) : newest.stale_seconds,
    reported: newest.reported ?? earlier.reported,
  };
}

const piecesOf = (beats: readonly Beat[], from: number): Beat[][] =>
  Array.from({ length: statementsAtOnce }, (_, piece) => from + piece * rowsAtOnce)
    .filter((first) => first < beats.length)
    .map((first) => beats.slice(first, first + rowsAtOnce));

export function createHeartbeatBuffer(db: Database, clock: Clock, onError: (error: unknown) => void): HeartbeatBuffer {
  let waiting = new Map<NodeInstanceId, Beat>();
  let writing = false;
  let failing = false;
  let added = 0;
  let storedAfterMs = 0;
  let flushedMs = clock.nowMs();
  let cancelTimer: (() => void) | undefined;
  let running: Promise<void> = Promise.resolve();
  let queued: Promise<void> | undefined;

  const write = (beats: Beat[]) =>
    db.transaction(async (tx) => {
      // A beat lost in a crash is told again in seconds; waiting for the disk would only make every beat dearer.
      await tx.query('set local synchronous_commit = off');
      await storeBeats(tx, beats);
    });

  const flushNow = async () => {
    const startedMs = clock.nowMs();
    const batch = waiting;
    waiting = new Map();
    writing = batch.size > 0;
    const beats = [...batch.values()];
    let stored = 0;
    try {
      // The oldest first, and each statement's beats are there when it ends, however many are behind it.
      for (; stored < beats.length; stored += statementsAtOnce * rowsAtOnce)
        await Promise.all(piecesOf(beats, stored).map(write));
      failing = false;
      if (beats.length > 0) storedAfterMs = clock.nowMs() - Math.min(flushedMs, startedMs);
      flushedMs = startedMs;
    } catch (error) {
      // Kept for the next flush, beneath whatever has come meanwhile.
      for (const beat of beats.slice(stored))
        waiting.set(beat.node_instance_id, later(waiting.get(beat.node_instance_id), beat));
      failing = true;
      onError(error);
      schedule();
    } finally {
      writing = false;
    }
  };

  /** One that has not begun yet takes along whatever there is by then. */
  const flush = (): Promise<void> => {
    queued ??= running.then(() => {
      queued = undefined;
      return flushNow();
    });
    running = queued;
    return queued;
  };

  const schedule = () => {
    cancelTimer ??= clock.after(flushEveryMs, () => {
      cancelTimer = undefined;
      void flush();
    });
  };

  const isEmpty = () => waiting.size === 0 && !writing;
  const flushedThroughMs = () => (isEmpty() ? clock.nowMs() : flushedMs);
  const behindMs = () => (isEmpty() || failing ? 0 : clock.nowMs() - flushedMs);

  return {
    add(beat) {
      // Until now nothing waited, so everything before this beat is stored: what we say of our hearing never goes back.
      if (isEmpty()) flushedMs = clock.nowMs();
      const before = waiting.get(beat.node_instance_id);
      waiting.set(beat.node_instance_id, before ? later(before, beat) : beat);
      added++;
      schedule();
    },
    flush,
    async room() {
      if (behindMs() <= patienceMs) return;
      const enough = new AbortController();
      await Promise.race([flush(), pause(clock, mostWaitMs, enough.signal)]);
      enough.abort();
    },
    added: () => added,
    storedAfterMs: () => storedAfterMs,
    flushedThrough: () => moment(flushedThroughMs()),
    flushedThroughMs,
    async stop() {
      cancelTimer?.();
      await running;
      await flushNow();
      cancelTimer?.();
    },
  };
}
