/**
 * Simulates a relay. It batches the heartbeats of its agents and sends them over a few persistent
 * connections, one batch at a time on each. A failed batch is retried after a backoff, during which
 * its connection sends nothing else, so a slow server is not flooded.
 */
import { Agent } from 'node:http';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { post } from './post.ts';

const maxBatch = 100;
/** A batch that is not full is sent after this time. */
const maxBatchAgeMs = 200;
const connections = 2;
const retry = { firstMs: 500, maxMs: 10_000 };

export interface Tally {
  sent: number;
  answered: number;
  /** The answered heartbeats that were sent as single calls. */
  called: number;
  /** Requests that failed or were refused as a whole, by error. */
  failed: Map<string, number>;
  /** Heartbeats refused individually, by code. */
  refused: Map<string, number>;
  /** A sample of the times from due to answered. */
  waitedMs: number[];
}

export const newTally = (): Tally => ({
  sent: 0,
  answered: 0,
  called: 0,
  failed: new Map(),
  refused: new Map(),
  waitedMs: [],
});

export const countUp = (map: Map<string, number>, key: string, by = 1) => map.set(key, (map.get(key) ?? 0) + by);

/** The used fields of an answer to a call, on a stream or in a batch. */
export interface BeatAnswer {
  heartbeat_interval_seconds?: number;
  code?: string;
}

export interface Relay {
  add(agent: number): void;
  /** Sends batches that are full or have waited long enough. */
  turn(nowMs: number): void;
  waiting(): number;
  stop(): void;
}

export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : String((error as Error).message);

export function createRelay(
  agents: Agents,
  urlNow: () => string,
  tally: Tally,
  onAnswer: (agent: number, answer: BeatAnswer, sentMs: number) => void,
): Relay {
  const sockets = new Agent({ keepAlive: true, maxSockets: connections });
  let waiting: number[] = [];
  let sinceMs = 0;
  let inFlight = 0;
  let tries = 0;
  let isStopped = false;

  const send = async (batch: number[]) => {
    const body = `{"beats":[${batch.map((agent) => `{"credential":"${agents.credential(agent)}",${agents.reportOf(agent)}}`).join(',')}]}`;
    const sentMs = systemClock.nowMs();
    tally.sent += batch.length;
    const reply = await post(new URL('/v1/agent/heartbeats', urlNow()), sockets, body);
    if (reply.status !== 200) throw Object.assign(new Error(`status ${reply.status}`), reply);
    const { results } = JSON.parse(reply.text) as { results: BeatAnswer[] };
    tally.answered += batch.length;
    for (const [place, agent] of batch.entries()) onAnswer(agent, results[place] ?? {}, sentMs);
  };

  const run = async (batch: number[]) => {
    inFlight++;
    try {
      await send(batch);
      tries = 0;
    } catch (error) {
      countUp(tally.failed, codeOf(error));
      waiting = [...batch, ...waiting];
      const pauseMs = Math.min(retry.maxMs, retry.firstMs * 2 ** Math.min(tries++, 10)) * (0.5 + Math.random() / 2);
      const requestedMs = error instanceof Error && 'retryAfterMs' in error ? Number(error.retryAfterMs) : 0;
      await pause(systemClock, Math.max(pauseMs, requestedMs));
    } finally {
      inFlight--;
      pump(systemClock.nowMs());
    }
  };

  const pump = (nowMs: number) => {
    while (!isStopped && inFlight < connections && waiting.length > 0) {
      if (waiting.length < maxBatch && nowMs - sinceMs < maxBatchAgeMs) return;
      void run(waiting.splice(0, maxBatch));
      sinceMs = nowMs;
    }
  };

  return {
    add(agent) {
      if (waiting.length === 0) sinceMs = systemClock.nowMs();
      waiting.push(agent);
    },
    turn: pump,
    waiting: () => waiting.length,
    stop() {
      isStopped = true;
      sockets.destroy();
    },
  };
}
