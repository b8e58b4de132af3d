/** Agents that speak for themselves: a beat is a request of its own, and one that failed is tried again as our agent does. */
import { Agent } from 'node:http';
import { systemClock } from '../../src/base/clock.ts';
import type { Agents } from './agents.ts';
import { post } from './post.ts';
import { type BeatAnswer, countUp, type Tally } from './relay.ts';

const retryMs = 5_000;

export interface Single {
  send(agent: number): void;
  stop(): void;
}

export function createSingle(
  agents: Agents,
  urlOf: (number: number) => string,
  tally: Tally,
  onAnswer: (agent: number, answer: BeatAnswer, sentMs: number) => void,
): Single {
  const sockets = new Agent({ keepAlive: true });
  const send = async (agent: number) => {
    const sentMs = systemClock.nowMs();
    tally.sent++;
    try {
      const url = new URL('/v1/agent/heartbeat', urlOf(agent));
      const { status, text } = await post(url, sockets, `{${agents.said(agent)}}`, agents.credential(agent));
      const answer = JSON.parse(text) as BeatAnswer;
      if (status === 200) tally.answered++;
      onAnswer(agent, answer, sentMs);
    } catch (error) {
      countUp(tally.failed, error instanceof Error ? error.message : String(error));
      agents.wheel.at(agent, systemClock.nowMs() + retryMs * (0.5 + Math.random() / 2));
    }
  };
  return {
    send: (agent) => void send(agent),
    stop: () => sockets.destroy(),
  };
}
