/**
 * Collects heartbeats of many agents into batches. Each agent gets the control plane's result for
 * its own heartbeat, or a refusal if the heartbeat was not delivered. Heartbeats of one instance
 * keep their order; equal ones that wait together are sent once. This file does no I/O.
 */
import { type Backoff, type BackoffLimits, createBackoff } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';

/** The control plane is unreachable, or it refuses the relay's token. */
type UndeliveredCode = 'relay_upstream_away' | 'relay_token_refused';
const unreachable: UndeliveredCode = 'relay_upstream_away';

/**
 * A batch was not delivered: the control plane did not answer, or it refused the batch as a whole.
 */
export class NotForwarded extends Error {
  override name = 'NotForwarded';
  /** Set if the content of the batch was refused, not for an outage, overload or refused token. */
  readonly refusal: Refusal | null;
  readonly retry_after_seconds: number;
  /** The code that agents get until batches are delivered again. */
  readonly code: UndeliveredCode;
  constructor(
    message: string,
    refusal: Refusal | null = null,
    retry_after_seconds = 0,
    code: UndeliveredCode = unreachable,
  ) {
    super(message);
    this.refusal = refusal;
    this.retry_after_seconds = retry_after_seconds;
    this.code = code;
  }
}

/** The fault while no batch has failed: the answer takes too long. */
const noAnswer = new NotForwarded('the control plane did not answer in time');

export type Refusal = Extract<HeartbeatResult, { code: string }>;
export type BeatOutcome = HeartbeatResult & { retry_after_seconds?: number };

export interface BatcherLimits {
  /** Heartbeats that arrive within this time are sent together. */
  batch_ms: number;
  /**
   * How long a heartbeat may wait for its result before it is answered as not delivered. Agents
   * stop waiting after `beat_answer_ms`.
   */
  max_wait_ms: number;
  retry: BackoffLimits;
  max_beats_per_batch: number;
  max_bytes_per_batch: number;
  max_batches_in_flight: number;
  /** The limit of heartbeats that wait for a batch or for its results. */
  max_waiting_beats: number;
}

export const defaultBatcherLimits: BatcherLimits = {
  batch_ms: 100,
  max_wait_ms: 3_500,
  retry: { first_ms: 100, max_ms: 2_000 },
  max_beats_per_batch: 1_000,
  max_bytes_per_batch: 900 * 1024,
  max_batches_in_flight: 4,
  max_waiting_beats: 20_000,
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

interface PendingBeat {
  credential: string;
  beat: BatchBeat;
  bytes: number;
  since_ms: number;
  answers: ((outcome: BeatOutcome) => void)[];
}

/**
 * How many requests may share one heartbeat. Only a client that does not wait for answers sends
 * more.
 */
const maxAnswers = 8;
const expiryCheckMs = 250;

const buildRefusal = (code: ErrorCode, detail: string, retry_after_seconds: number): BeatOutcome => ({
  code,
  status: errorCatalogue[code].status,
  detail,
  retry_after_seconds,
});

/** Adds one full stop, because only some error messages end with one. */
export const undeliveredDetail = ({ message }: Error): string => `Not forwarded: ${message.replace(/\.+$/, '')}.`;

/** Random, so that the agents do not all retry at the same moment. */
const retrySeconds = () => Math.round((1 + Math.random() * 4) * 10) / 10;

export function createHeartbeatBatcher(parts: {
  clock: Clock;
  limits: BatcherLimits;
  forward(beats: BatchBeat[]): Promise<HeartbeatResult[]>;
  onOutage(error: NotForwarded): void;
  onRecovery(seconds: number): void;
  /** Called for each refused heartbeat of a batch that was accepted as a whole. */
  onRefused(refusal: Refusal): void;
}): Batcher {
  const { clock, limits, forward } = parts;
  const pauses: Backoff = createBackoff(limits.retry);
  let queue: PendingBeat[] = [];
  /** The last queued heartbeat of each instance. */
  const waiting = new Map<string, PendingBeat>();
  /** Instances with a heartbeat in flight. Their next one waits, to keep the order. */
  const inFlight = new Set<string>();
  /** All held heartbeats, queued or in flight, oldest first. */
  const unanswered = new Set<PendingBeat>();
  let batchesInFlight = 0;
  let outageStartMs: number | undefined;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let lastFault = noAnswer;
  let isStopping = false;
  let cancelFlush: (() => void) | undefined;
  let cancelExpiry: (() => void) | undefined;
  let onEmpty: (() => void) | undefined;
  const counts = { taken: 0, batches: 0, merged: 0, undelivered: 0 };

  const settle = (each: PendingBeat, outcome: BeatOutcome) => {
    // The result of a heartbeat that was given up in flight comes too late.
    if (!unanswered.delete(each)) return;
    if (waiting.get(each.credential) === each) waiting.delete(each.credential);
    for (const answer of each.answers) answer(outcome);
    each.answers = [];
    if (unanswered.size === 0) onEmpty?.();
  };
  const giveUp = (each: PendingBeat) => {
    counts.undelivered += each.answers.length;
    settle(each, buildRefusal(lastFault.code, undeliveredDetail(lastFault), retrySeconds()));
  };

  const nextBatch = (): PendingBeat[] => {
    const batch: PendingBeat[] = [];
    const remaining: PendingBeat[] = [];
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
  const forwardAll = async (batch: PendingBeat[]): Promise<void> => {
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

  const recordRecovery = () => {
    pauses.reset();
    notBeforeMs = Number.NEGATIVE_INFINITY;
    if (outageStartMs === undefined) return;
    parts.onRecovery(Math.round(clock.monotonicMs() - outageStartMs) / 1000);
    outageStartMs = undefined;
    lastFault = noAnswer;
  };
  const recordOutage = (error: NotForwarded) => {
    // With a refused token the stream closes first, which is reported as an outage. Report the
    // refusal too.
    if (outageStartMs === undefined || (error.code !== unreachable && lastFault.code === unreachable))
      parts.onOutage(error);
    lastFault = error;
    outageStartMs ??= clock.monotonicMs();
    const pauseMs = Math.max(pauses.nextMs(), Math.min(error.retry_after_seconds * 1000, limits.retry.max_ms));
    notBeforeMs = clock.monotonicMs() + pauseMs;
  };

  const send = async (batch: PendingBeat[]) => {
    batchesInFlight++;
    counts.batches++;
    for (const { credential } of batch) inFlight.add(credential);
    try {
      await forwardAll(batch);
      recordRecovery();
    } catch (error) {
      recordOutage(error instanceof NotForwarded ? error : new NotForwarded(String(error)));
      const remaining = batch.filter((each) => unanswered.has(each));
      if (isStopping) remaining.forEach(giveUp);
      else queue = [...remaining, ...queue];
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
    // While the control plane is unreachable, one batch at a time is enough to notice its recovery.
    const maxInFlight = outageStartMs === undefined ? limits.max_batches_in_flight : 1;
    while (batchesInFlight < maxInFlight) {
      const batch = nextBatch();
      if (batch.length === 0) return;
      void send(batch);
    }
  };
  const schedule = (ms: number) => {
    cancelFlush ??= clock.after(ms, flush);
  };

  const expireWaiting = () => {
    cancelExpiry = undefined;
    const oldestMs = clock.monotonicMs() - limits.max_wait_ms;
    for (const each of unanswered) {
      if (each.since_ms > oldestMs) break;
      giveUp(each);
    }
    queue = queue.filter((each) => unanswered.has(each));
    if (unanswered.size > 0) cancelExpiry = clock.after(expiryCheckMs, expireWaiting);
  };

  return {
    take(credential, beat) {
      counts.taken++;
      if (isStopping) return Promise.resolve(buildRefusal('rate_limited', 'The relay is stopping.', retrySeconds()));
      if (unanswered.size >= limits.max_waiting_beats)
        return Promise.resolve(buildRefusal('rate_limited', 'The relay holds too many heartbeats.', retrySeconds()));
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
        const pendingBeat = { credential, beat: batchBeat, bytes, since_ms: clock.monotonicMs(), answers: [resolve] };
        unanswered.add(pendingBeat);
        queue.push(pendingBeat);
        waiting.set(credential, pendingBeat);
        cancelExpiry ??= clock.after(expiryCheckMs, expireWaiting);
        if (queue.length >= limits.max_beats_per_batch && outageStartMs === undefined) flush();
        else schedule(limits.batch_ms);
      });
    },
    figures: () => ({
      ...counts,
      held: unanswered.size,
      away_seconds: outageStartMs === undefined ? 0 : Math.round(clock.monotonicMs() - outageStartMs) / 1000,
    }),
    async stop() {
      isStopping = true;
      flush();
      if (unanswered.size > 0)
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      cancelFlush?.();
      cancelExpiry?.();
    },
  };
}
