/**
 * Collects heartbeats of many agents into batches. Each agent gets the control plane's result for
 * its own heartbeat, or a refusal if the heartbeat was not delivered. Heartbeats of one instance
 * keep their order; equal ones that wait together are sent once. This file does no I/O.
 */
import { type Backoff, backoff, type Span } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';

/** The control plane is unreachable, or it refuses the relay's token. */
type UndeliveredCode = 'relay_upstream_away' | 'relay_token_refused';
const away: UndeliveredCode = 'relay_upstream_away';

/**
 * A batch was not delivered: the control plane did not answer, or it refused the batch as a whole.
 */
export class NotForwarded extends Error {
  override name = 'NotForwarded';
  /** Null if the control plane did not judge the batch. */
  readonly refusal: Refusal | null;
  readonly retry_after_seconds: number;
  /** The code that agents get until batches are delivered again. */
  readonly code: UndeliveredCode;
  constructor(message: string, refusal: Refusal | null = null, retry_after_seconds = 0, code: UndeliveredCode = away) {
    super(message);
    this.refusal = refusal;
    this.retry_after_seconds = retry_after_seconds;
    this.code = code;
  }
}

export type Refusal = Extract<HeartbeatResult, { code: string }>;
export type BeatOutcome = HeartbeatResult & { retry_after_seconds?: number };

export interface BatcherLimits {
  /** Heartbeats that arrive within this time are sent together. */
  batch_ms: number;
  /** How long a heartbeat may wait for delivery. Agents wait longer than this for an answer. */
  hold_ms: number;
  retry: Span;
  max_beats_per_batch: number;
  max_bytes_per_batch: number;
  batches_at_once: number;
  /** The limit on heartbeats that wait or are in flight. */
  held_beats: number;
}

export const defaultLimits: BatcherLimits = {
  batch_ms: 100,
  hold_ms: 8_000,
  retry: { first_ms: 100, max_ms: 2_000 },
  max_beats_per_batch: 1_000,
  max_bytes_per_batch: 900 * 1024,
  batches_at_once: 4,
  held_beats: 20_000,
};

export interface BatcherFigures {
  held: number;
  taken: number;
  batches: number;
  /** Heartbeats merged into an equal one that was already waiting. */
  merged: number;
  /** Heartbeats answered as not delivered. */
  undelivered: number;
  away_seconds: number;
}

export interface Batcher {
  take(credential: string, beat: Heartbeat): Promise<BeatOutcome>;
  figures(): BatcherFigures;
  /**
   * Resolves when every held heartbeat was answered. Those that cannot be delivered are refused.
   */
  stop(): Promise<void>;
}

interface HeldBeat {
  credential: string;
  beat: BatchBeat;
  bytes: number;
  since_ms: number;
  answers: ((outcome: BeatOutcome) => void)[];
}

/**
 * Requests that may share one heartbeat. Only a client that does not wait for answers sends more.
 */
const maxAnswers = 8;
const expiryCheckMs = 250;

const refusedWith = (code: ErrorCode, detail: string, retry_after_seconds: number): BeatOutcome => ({
  code,
  status: errorCatalogue[code].status,
  detail,
  retry_after_seconds,
});

/** Error messages may or may not end with a full stop. */
export const undeliveredBecause = ({ message }: Error): string => `Not forwarded: ${message.replace(/\.+$/, '')}.`;

/** Random, so that the agents do not all retry at the same moment. */
const retrySeconds = () => Math.round((1 + Math.random() * 4) * 10) / 10;

export function createHeartbeatBatcher(parts: {
  clock: Clock;
  limits: BatcherLimits;
  forward(beats: BatchBeat[]): Promise<HeartbeatResult[]>;
  onAway(error: NotForwarded): void;
  onBack(seconds: number): void;
  /** Called for each refused heartbeat of a batch that was accepted as a whole. */
  onRefused(refusal: Refusal): void;
}): Batcher {
  const { clock, limits, forward } = parts;
  const pauses: Backoff = backoff(limits.retry);
  let queue: HeldBeat[] = [];
  /** The last queued heartbeat of each instance. */
  const waiting = new Map<string, HeldBeat>();
  /** Instances with a heartbeat in flight. Their next one waits, to keep the order. */
  const inFlight = new Set<string>();
  let held = 0;
  let batchesInFlight = 0;
  let awaySinceMs: number | undefined;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let lastFault = new NotForwarded('the relay has just started');
  let isStopping = false;
  let cancelFlush: (() => void) | undefined;
  let cancelExpiry: (() => void) | undefined;
  let onEmpty: (() => void) | undefined;
  const counts = { taken: 0, batches: 0, merged: 0, undelivered: 0 };

  const settle = (each: HeldBeat, outcome: BeatOutcome) => {
    held--;
    if (waiting.get(each.credential) === each) waiting.delete(each.credential);
    for (const answer of each.answers) answer(outcome);
    each.answers = [];
    if (held === 0) onEmpty?.();
  };
  const giveUp = (each: HeldBeat) => {
    counts.undelivered += each.answers.length;
    settle(each, refusedWith(lastFault.code, undeliveredBecause(lastFault), retrySeconds()));
  };

  const nextBatch = (): HeldBeat[] => {
    const batch: HeldBeat[] = [];
    const remaining: HeldBeat[] = [];
    /** Instances whose heartbeat did not fit. A later, smaller one must not overtake it. */
    const skipped = new Set<string>();
    let bytes = 0;
    for (const each of queue) {
      const fits = batch.length < limits.max_beats_per_batch && bytes + each.bytes <= limits.max_bytes_per_batch;
      if (!fits || inFlight.has(each.credential) || skipped.has(each.credential)) {
        remaining.push(each);
        skipped.add(each.credential);
      } else {
        batch.push(each);
        bytes += each.bytes;
        if (waiting.get(each.credential) === each) waiting.delete(each.credential);
      }
    }
    queue = remaining;
    return batch;
  };

  /** Bisects a refused batch to find the bad heartbeat, so that the others are delivered. */
  const forwardAll = async (batch: HeldBeat[]): Promise<void> => {
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

  const recordReturn = () => {
    pauses.reset();
    notBeforeMs = Number.NEGATIVE_INFINITY;
    if (awaySinceMs === undefined) return;
    parts.onBack(Math.round(clock.monotonicMs() - awaySinceMs) / 1000);
    awaySinceMs = undefined;
    lastFault = new NotForwarded('the control plane was unreachable a moment ago');
  };
  const recordOutage = (error: NotForwarded) => {
    // With a refused token the stream closes first, which is reported as an outage. Report the
    // refusal too.
    if (awaySinceMs === undefined || (error.code !== away && lastFault.code === away)) parts.onAway(error);
    lastFault = error;
    awaySinceMs ??= clock.monotonicMs();
    const pauseMs = Math.max(pauses.nextMs(), Math.min(error.retry_after_seconds * 1000, limits.retry.max_ms));
    notBeforeMs = clock.monotonicMs() + pauseMs;
  };

  const send = async (batch: HeldBeat[]) => {
    batchesInFlight++;
    counts.batches++;
    for (const { credential } of batch) inFlight.add(credential);
    try {
      await forwardAll(batch);
      recordReturn();
    } catch (error) {
      recordOutage(error instanceof NotForwarded ? error : new NotForwarded(String(error)));
      const unanswered = batch.filter(({ answers }) => answers.length > 0);
      if (isStopping) unanswered.forEach(giveUp);
      else queue = [...unanswered, ...queue];
    } finally {
      batchesInFlight--;
      for (const { credential } of batch) inFlight.delete(credential);
    }
    if (queue.length > 0) schedule(0);
  };

  const flush = () => {
    cancelFlush = undefined;
    const pauseMs = notBeforeMs - clock.monotonicMs();
    if (pauseMs > 0 && !isStopping) return schedule(Math.ceil(pauseMs));
    // While the control plane is unreachable, one batch at a time is enough to notice its return.
    const maxInFlight = awaySinceMs === undefined ? limits.batches_at_once : 1;
    while (batchesInFlight < maxInFlight) {
      const batch = nextBatch();
      if (batch.length === 0) return;
      void send(batch);
    }
  };
  const schedule = (ms: number) => {
    cancelFlush ??= clock.after(ms, flush);
  };

  const expireHeld = () => {
    cancelExpiry = undefined;
    const oldestMs = clock.monotonicMs() - limits.hold_ms;
    const [expired, remaining] = [
      queue.filter((each) => each.since_ms <= oldestMs),
      queue.filter((each) => each.since_ms > oldestMs),
    ];
    queue = remaining;
    for (const each of expired) giveUp(each);
    if (held > 0) cancelExpiry = clock.after(expiryCheckMs, expireHeld);
  };

  return {
    take(credential, beat) {
      counts.taken++;
      if (isStopping) return Promise.resolve(refusedWith('rate_limited', 'The relay is stopping.', retrySeconds()));
      if (held >= limits.held_beats)
        return Promise.resolve(refusedWith('rate_limited', 'The relay holds too many heartbeats.', retrySeconds()));
      const batchBeat = { credential, ...beat };
      const text = JSON.stringify(batchBeat);
      return new Promise((resolve) => {
        const lastWaiting = waiting.get(credential);
        // Merge only heartbeats that are equal in every field: the control plane may use any of
        // the fields.
        if (lastWaiting && lastWaiting.answers.length < maxAnswers && JSON.stringify(lastWaiting.beat) === text) {
          counts.merged++;
          lastWaiting.answers.push(resolve);
          return;
        }
        const bytes = Buffer.byteLength(text) + 1;
        const heldBeat = { credential, beat: batchBeat, bytes, since_ms: clock.monotonicMs(), answers: [resolve] };
        held++;
        queue.push(heldBeat);
        waiting.set(credential, heldBeat);
        cancelExpiry ??= clock.after(expiryCheckMs, expireHeld);
        if (queue.length >= limits.max_beats_per_batch && awaySinceMs === undefined) flush();
        else schedule(limits.batch_ms);
      });
    },
    figures: () => ({
      ...counts,
      held,
      away_seconds: awaySinceMs === undefined ? 0 : Math.round(clock.monotonicMs() - awaySinceMs) / 1000,
    }),
    async stop() {
      isStopping = true;
      flush();
      if (held > 0)
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      cancelFlush?.();
      cancelExpiry?.();
    },
  };
}
