/**
 * A relay: collects the beats of its agents for a moment and sends them together over a few connections that stay open. What
 * was not answered stays with it and goes again, later each time, so a server that is away or slow is never sent more than it answers.
 */
import { Agent } from 'node:http';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { post } from './post.ts';

const mostInABatch = 100;
const gatherMs = 200;
const connections = 2;
const retry = { firstMs: 500, mostMs: 10_000 };

export interface Tally {
  sent: number;
  answered: number;
  /** Those of them that came by calls of their own. */
  called: number;
  /** Requests that nobody answered, or that were refused as a whole, by what was said. */
  failed: Map<string, number>;
  /** Beats that were refused alone, by code. */
  refused: Map<string, number>;
  /** From the time at which a beat was due to its answer, a sample of all. */
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

/** What is needed of an answer, whichever way it came. */
export interface BeatAnswer {
  heartbeat_interval_seconds?: number;
  code?: string;
}

export interface Relay {
  add(agent: number): void;
  /** Sends what has waited for its moment. */
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
  let busy = 0;
  let tries = 0;
  let stopped = false;

  const send = async (batch: number[]) => {
    const body = `{"beats":[${batch.map((agent) => `{"credential":"${agents.credential(agent)}",${agents.said(agent)}}`).join(',')}]}`;
    const sentMs = systemClock.nowMs();
    tally.sent += batch.length;
    const reply = await post(new URL('/v1/agent/heartbeats', urlNow()), sockets, body);
    if (reply.status !== 200) throw Object.assign(new Error(`status ${reply.status}`), reply);
    const { results } = JSON.parse(reply.text) as { results: BeatAnswer[] };
    tally.answered += batch.length;
    for (const [place, agent] of batch.entries()) onAnswer(agent, results[place] ?? {}, sentMs);
  };

  const run = async (batch: number[]) => {
    busy++;
    try {
      await send(batch);
      tries = 0;
    } catch (error) {
      countUp(tally.failed, codeOf(error));
      waiting = [...batch, ...waiting];
      const pauseMs = Math.min(retry.mostMs, retry.firstMs * 2 ** Math.min(tries++, 10)) * (0.5 + Math.random() / 2);
      const told = error instanceof Error && 'retryAfterMs' in error ? Number(error.retryAfterMs) : 0;
      await pause(systemClock, Math.max(pauseMs, told));
    } finally {
      busy--;
      pump(systemClock.nowMs());
    }
  };

  const pump = (nowMs: number) => {
    while (!stopped && busy < connections && waiting.length > 0) {
      if (waiting.length < mostInABatch && nowMs - sinceMs < gatherMs) return;
      void run(waiting.splice(0, mostInABatch));
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
      stopped = true;
      sockets.destroy();
    },
  };
}
