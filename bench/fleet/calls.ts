/** Simulates agents that send each heartbeat as a single call. Failed calls are retried soon. */
import { Agent } from 'node:http';
import { addJitter } from '../../src/base/backoff.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { post } from './post.ts';
import { type BeatAnswer, codeOf, countUp, type Tally } from './relay.ts';

const retryMs = 5_000;
/** Enough connections that no agent waits for another. */
const connections = 64;

export interface Calls {
  send(agent: number): void;
  stop(): void;
}

export function createCalls(
  agents: Agents,
  urlOf: (agent: number) => string,
  tally: Tally,
  onAnswer: (agent: number, answer: BeatAnswer, sentMs: number) => void,
): Calls {
  const sockets = new Agent({ keepAlive: true, maxSockets: connections });
  let isStopped = false;

  const call = async (agent: number) => {
    const sentMs = systemClock.nowMs();
    tally.sent++;
    try {
      const url = new URL('/v1/agent/heartbeat', urlOf(agent));
      const { status, text } = await post(url, sockets, `{${agents.reportOf(agent)}}`, agents.credential(agent));
      if (status >= 500) throw new Error(`status ${status}`);
      tally.answered++;
      tally.called++;
      onAnswer(agent, JSON.parse(text) as BeatAnswer, sentMs);
    } catch (error) {
      if (isStopped) return;
      countUp(tally.failed, `call: ${codeOf(error)}`);
      agents.wheel.schedule(agent, systemClock.nowMs() + addJitter(retryMs));
    }
  };

  return {
    send: (agent) => void call(agent),
    stop() {
      isStopped = true;
      sockets.destroy();
    },
  };
}
