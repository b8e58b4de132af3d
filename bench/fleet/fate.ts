/** Applies the planned events to the running fleet, each at its time. */
import { Agent } from 'node:http';
import { now, systemClock } from '../../src/base/clock.ts';
import { seededRandom } from '../../test/properties/support/random.ts';
import { type Agents, doing } from './agents.ts';
import type { Deaths } from './judge.ts';
import { bootSeconds, type Planned } from './plan.ts';
import { post } from './post.ts';
import { countUp } from './relay.ts';

export interface Fate {
  /** Agents that have died so far. */
  dead: Deaths;
  /** Counts of answers to requests other than heartbeats, by action and status. */
  answers: Map<string, number>;
  joinMs: number[];
  stop(): void;
}

interface FateSettings {
  agents: Agents;
  url(): string;
  join_token: string;
  seed: number;
}

/**
 * Enough connections that registering machines do not wait for each other. Such a wait would count
 * as response time of the server.
 */
const connections = 64;

export function startFate(plan: readonly Planned[], { agents, url, join_token, seed }: FateSettings): Fate {
  const sockets = new Agent({ keepAlive: true, maxSockets: connections });
  const dice = seededRandom(seed, 1);
  const dead = new Map<number, Date>();
  const answers = new Map<string, number>();
  const joinMs: number[] = [];
  const startedMs = systemClock.nowMs();
  let stopped = false;
  let place = 0;

  const register = async (act: string, body: object, bearer?: string) => {
    try {
      const { status, text } = await post(new URL('/v1/agent/register', url()), sockets, JSON.stringify(body), bearer);
      countUp(answers, `${act} ${status}`);
      return status < 300 ? (JSON.parse(text) as { credential?: string }) : undefined;
    } catch (error) {
      if (!stopped)
        countUp(answers, `${act} ${String(error instanceof Error ? error.message : error).replace(/:\d+$/, '')}`);
      return undefined;
    }
  };

  const join = async (number: number) => {
    const name = `late-${number}`;
    const sentMs = systemClock.monotonicMs();
    const registered = await register('joins', { join_token, name, version: 'bench' });
    joinMs.push(systemClock.monotonicMs() - sentMs);
    if (!registered?.credential) return;
    const agent = agents.join(registered.credential, name);
    agents.wheel.schedule(agent, systemClock.nowMs());
    // A real agent reports its new status at once. Here the next due heartbeat reports it.
    systemClock.after(bootSeconds(dice.next) * 1000, () => {
      if (agents.state[agent] === doing.boots) agents.state[agent] = doing.beats;
    });
  };

  const acts: Record<Planned['act'], (agent: number) => void> = {
    dies(agent) {
      agents.state[agent] = doing.dead;
      dead.set(agent, now(systemClock));
    },
    restarts: (agent) => void register('restarts', { version: 'bench' }, agents.credential(agent)),
    falters(agent) {
      agents.state[agent] = doing.falters;
    },
    joins: (number) => void join(number),
  };

  const turn = () => {
    if (stopped) return;
    const seconds = (systemClock.nowMs() - startedMs) / 1000;
    for (let next = plan[place]; next && next.atSeconds <= seconds; next = plan[++place]) acts[next.act](next.agent);
    systemClock.after(100, turn);
  };
  turn();
  return {
    dead,
    answers,
    joinMs,
    stop() {
      stopped = true;
      sockets.destroy();
    },
  };
}
