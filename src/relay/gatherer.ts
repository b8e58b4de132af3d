/**
 * Gathers the beats of a rack into batches. Every beat is answered with what the control plane said of that very beat, and of nothing
 * older: an agent that is not heard is told so. Beats of one instance keep their order; equal ones that wait together travel as one.
 * It knows no network.
 */
import { type Backoff, backoff, type Span } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';

/** Nobody is there, or somebody who does not take the relay's token. */
type Unheard = 'relay_upstream_away' | 'relay_token_refused';
const away: Unheard = 'relay_upstream_away';

/** A batch that was not taken: by nobody, or as a whole by somebody who did not like something in it. */
export class NotForwarded extends Error {
  override name = 'NotForwarded';
  /** Null where nobody judged it. */
  readonly refusal: Refusal | null;
  readonly retry_after_seconds: number;
  /** What its agents are told meanwhile. */
  readonly code: Unheard;
  constructor(message: string, refusal: Refusal | null = null, retry_after_seconds = 0, code: Unheard = away) {
    super(message);
    this.refusal = refusal;
    this.retry_after_seconds = retry_after_seconds;
    this.code = code;
  }
}

export type Refusal = Extract<HeartbeatResult, { code: string }>;
export type BeatOutcome = HeartbeatResult & { retry_after_seconds?: number };

export interface GathererLimits {
  /** Beats that come within this time travel together. */
  gather_ms: number;
  /** How long a beat waits at most before its agent is told that it was not heard; less than agents wait for an answer. */
  hold_ms: number;
  retry: Span;
  beats_a_batch: number;
  bytes_a_batch: number;
  batches_at_once: number;
  /** All that wait or travel. */
  held_beats: number;
}

export const defaultLimits: GathererLimits = {
  gather_ms: 100,
  hold_ms: 8_000,
  retry: { first_ms: 100, max_ms: 2_000 },
  beats_a_batch: 1_000,
  bytes_a_batch: 900 * 1024,
  batches_at_once: 4,
  held_beats: 20_000,
};

export interface GathererFigures {
  held: number;
  taken: number;
  batches: number;
  /** Beats that travelled with an equal one. */
  joined: number;
  /** Agents that were told that they were not heard. */
  unheard: number;
  away_seconds: number;
}

export interface Gatherer {
  take(credential: string, beat: Heartbeat): Promise<BeatOutcome>;
  figures(): GathererFigures;
  /** Resolves when nothing waits any more; whatever cannot be passed on is answered as not heard. */
  stop(): Promise<void>;
}

interface Held {
  credential: string;
  beat: BatchBeat;
  bytes: number;
  since_ms: number;
  answers: ((outcome: BeatOutcome) => void)[];
}

/** So many of one instance wait for one beat; more are a client that does not wait for answers. */
const mostAnswers = 8;
const lookEveryMs = 250;

const refusedWith = (code: ErrorCode, detail: string, retry_after_seconds: number): BeatOutcome => ({
  code,
  status: errorCatalogue[code].status,
  detail,
  retry_after_seconds,
});

/** The fault is a sentence of the control plane's, or words without an end. */
export const unheardBecause = ({ message }: Error): string => `Not passed on: ${message.replace(/\.+$/, '')}.`;

/** Spread, so that a rack that was told at once does not come back at once. */
const retrySeconds = () => Math.round((1 + Math.random() * 4) * 10) / 10;

export function createGatherer(parts: {
  clock: Clock;
  limits: GathererLimits;
  forward(beats: BatchBeat[]): Promise<HeartbeatResult[]>;
  onAway(error: NotForwarded): void;
  onBack(seconds: number): void;
  /** One beat, by itself: the others of its batch counted. */
  onRefused(refusal: Refusal): void;
}): Gatherer {
  const { clock, limits, forward } = parts;
  const pauses: Backoff = backoff(limits.retry);
  let queue: Held[] = [];
  /** The last beat of each instance that has not left yet. */
  const waiting = new Map<string, Held>();
  /** Whose beat is under way: the next one waits, so that none overtakes another. */
  const travelling = new Set<string>();
  let held = 0;
  let flying = 0;
  let awaySinceMs: number | undefined;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let lastFault = new NotForwarded('the relay has just started');
  let stopping = false;
  let cancelFlush: (() => void) | undefined;
  let cancelLook: (() => void) | undefined;
  let whenEmpty: (() => void) | undefined;
  const counts = { taken: 0, batches: 0, joined: 0, unheard: 0 };

  const settle = (each: Held, outcome: BeatOutcome) => {
    held--;
    if (waiting.get(each.credential) === each) waiting.delete(each.credential);
    for (const answer of each.answers) answer(outcome);
    each.answers = [];
    if (held === 0) whenEmpty?.();
  };
  const giveUp = (each: Held) => {
    counts.unheard += each.answers.length;
    settle(each, refusedWith(lastFault.code, unheardBecause(lastFault), retrySeconds()));
  };

  const nextBatch = (): Held[] => {
    const batch: Held[] = [];
    const left: Held[] = [];
    /** Whose beat found no room: a later, smaller one of theirs must not pass it. */
    const leftBehind = new Set<string>();
    let bytes = 0;
    for (const each of queue) {
      const fits = batch.length < limits.beats_a_batch && bytes + each.bytes <= limits.bytes_a_batch;
      if (!fits || travelling.has(each.credential) || leftBehind.has(each.credential)) {
        left.push(each);
        leftBehind.add(each.credential);
      } else {
        batch.push(each);
        bytes += each.bytes;
        if (waiting.get(each.credential) === each) waiting.delete(each.credential);
      }
    }
    queue = left;
    return batch;
  };

  /** One beat that makes the whole refuse is found by halves, and takes nothing from the others. */
  const forwardAll = async (batch: Held[]): Promise<void> => {
    try {
      const results = await forward(batch.map(({ beat }) => beat));
      for (const [index, each] of batch.entries()) {
        const result = results[index];
        if (result && 'code' in result) parts.onRefused(result);
        if (result) settle(each, result);
      }
    } catch (error) {
      if (!(error instanceof NotForwarded) || !error.refusal) throw error;
      const [only] = batch;
      if (only && batch.length === 1) return settle(only, error.refusal);
      const middle = Math.ceil(batch.length / 2);
      await forwardAll(batch.slice(0, middle));
      await forwardAll(batch.slice(middle));
    }
  };

  const cameBack = () => {
    pauses.reset();
    notBeforeMs = Number.NEGATIVE_INFINITY;
    if (awaySinceMs === undefined) return;
    parts.onBack(Math.round(clock.monotonicMs() - awaySinceMs) / 1000);
    awaySinceMs = undefined;
    lastFault = new NotForwarded('it was away a moment ago');
  };
  const isAway = (error: NotForwarded) => {
    // One that refuses was away a moment before, when it ended the stream; that it refuses is what somebody has to know.
    if (awaySinceMs === undefined || (error.code !== away && lastFault.code === away)) parts.onAway(error);
    lastFault = error;
    awaySinceMs ??= clock.monotonicMs();
    const restMs = Math.max(pauses.nextMs(), Math.min(error.retry_after_seconds * 1000, limits.retry.max_ms));
    notBeforeMs = clock.monotonicMs() + restMs;
  };

  const send = async (batch: Held[]) => {
    flying++;
    counts.batches++;
    for (const { credential } of batch) travelling.add(credential);
    try {
      await forwardAll(batch);
      cameBack();
    } catch (error) {
      isAway(error instanceof NotForwarded ? error : new NotForwarded(String(error)));
      const open = batch.filter(({ answers }) => answers.length > 0);
      if (stopping) open.forEach(giveUp);
      else queue = [...open, ...queue];
    } finally {
      flying--;
      for (const { credential } of batch) travelling.delete(credential);
    }
    if (queue.length > 0) schedule(0);
  };

  const flush = () => {
    cancelFlush = undefined;
    const restMs = notBeforeMs - clock.monotonicMs();
    if (restMs > 0 && !stopping) return schedule(Math.ceil(restMs));
    // While nobody answers, one batch at a time is enough to find out when somebody does.
    const atOnce = awaySinceMs === undefined ? limits.batches_at_once : 1;
    while (flying < atOnce) {
      const batch = nextBatch();
      if (batch.length === 0) return;
      void send(batch);
    }
  };
  const schedule = (ms: number) => {
    cancelFlush ??= clock.after(ms, flush);
  };

  const look = () => {
    cancelLook = undefined;
    const oldest = clock.monotonicMs() - limits.hold_ms;
    const [late, left] = [
      queue.filter((each) => each.since_ms <= oldest),
      queue.filter((each) => each.since_ms > oldest),
    ];
    queue = left;
    for (const each of late) giveUp(each);
    if (held > 0) cancelLook = clock.after(lookEveryMs, look);
  };

  return {
    take(credential, beat) {
      counts.taken++;
      if (held >= limits.held_beats || stopping)
        return Promise.resolve(refusedWith('rate_limited', 'The relay holds as many beats as it may.', retrySeconds()));
      const fresh = { credential, ...beat };
      const text = JSON.stringify(fresh);
      return new Promise((resolve) => {
        const before = waiting.get(credential);
        // Equal in everything: any field may be what the control plane judges by, now or in a later version.
        if (before && before.answers.length < mostAnswers && JSON.stringify(before.beat) === text) {
          counts.joined++;
          before.answers.push(resolve);
          return;
        }
        const bytes = Buffer.byteLength(text) + 1;
        const each = { credential, beat: fresh, bytes, since_ms: clock.monotonicMs(), answers: [resolve] };
        held++;
        queue.push(each);
        waiting.set(credential, each);
        cancelLook ??= clock.after(lookEveryMs, look);
        if (queue.length >= limits.beats_a_batch && awaySinceMs === undefined) flush();
        else schedule(limits.gather_ms);
      });
    },
    figures: () => ({
      ...counts,
      held,
      away_seconds: awaySinceMs === undefined ? 0 : Math.round(clock.monotonicMs() - awaySinceMs) / 1000,
    }),
    async stop() {
      stopping = true;
      flush();
      if (held > 0)
        await new Promise<void>((resolve) => {
          whenEmpty = resolve;
        });
      cancelFlush?.();
      cancelLook?.();
    },
  };
}
