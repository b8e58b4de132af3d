/** Lets the plan come true: each thing at its time, on the fleet that beats meanwhile. */
import { Agent } from 'node:http';
import { now, systemClock } from '../../src/base/clock.ts';
import { throwing } from '../../test/properties/support/dice.ts';
import { type Agents, doing } from './agents.ts';
import type { Deaths } from './judge.ts';
import { bootSeconds, type Planned } from './plan.ts';
import { post } from './post.ts';
import { countUp } from './relay.ts';

export interface Fate {
  /** Those that have died so far. */
  dead: Deaths;
  /** How often what an agent asked besides beats was answered with what, by act and status. */
  answers: Map<string, number>;
  joinMs: number[];
  stop(): void;
}

interface Surroundings {
  agents: Agents;
  url(): string;
  join_token: string;
  seed: number;
}

/** Machines that register do not wait for each other's connections; with fewer, that wait would be taken for the server's. */
const connections = 64;

export function startFate(plan: readonly Planned[], { agents, url, join_token, seed }: Surroundings): Fate {
  const sockets = new Agent({ keepAlive: true, maxSockets: connections });
  const dice = throwing(seed, 1);
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
    const askedMs = systemClock.monotonicMs();
    const registered = await register('joins', { join_token, name, version: 'bench' });
    joinMs.push(systemClock.monotonicMs() - askedMs);
    if (!registered?.credential) return;
    const agent = agents.join(registered.credential, name);
    agents.wheel.at(agent, systemClock.nowMs());
    // A changed claim is told at once; here with the beat that is due next, at the latest.
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
