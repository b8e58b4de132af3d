/** Applies the planned events to the running fleet, each at its time. */
import { Agent } from 'node:http';
import { now, systemClock } from '../../src/base/clock.ts';
import { seededRandom } from '../../test/properties/support/random.ts';
import { type Agents, agentStates } from './agents.ts';
import type { Deaths } from './judge.ts';
import { bootSeconds, type PlannedEvent } from './plan.ts';
import { post } from './post.ts';
import { countUp } from './relay.ts';

export interface FleetEvents {
  /** Agents that have died so far. */
  dead: Deaths;
  /** Counts of registrations, by action and status, or by error message if no answer came. */
  registrations: Map<string, number>;
  /** How long each join took, failed ones included. */
  joinMs: number[];
  stop(): void;
}

interface EventSettings {
  agents: Agents;
  url(): string;
  join_token: string;
  seed: number;
}

/**
 * Enough connections that registering machines do not wait for each other. Such a wait would be
 * measured as response time of the server.
 */
const connections = 64;

export function startEvents(
  plan: readonly PlannedEvent[],
  { agents, url, join_token, seed }: EventSettings,
): FleetEvents {
  const sockets = new Agent({ keepAlive: true, maxSockets: connections });
  const { next: random } = seededRandom(seed, 1);
  const dead = new Map<number, Date>();
  const registrations = new Map<string, number>();
  const joinMs: number[] = [];
  const startedMs = systemClock.nowMs();
  let isStopped = false;
  let nextIndex = 0;

  const register = async (act: string, body: object, bearer?: string) => {
    try {
      const { status, text } = await post(new URL('/v1/agent/register', url()), sockets, JSON.stringify(body), bearer);
      countUp(registrations, `${act} ${status}`);
      return status < 300 ? (JSON.parse(text) as { credential?: string }) : undefined;
    } catch (error) {
      // Without the port, so that failures with the same cause are counted together.
      const message = String(error instanceof Error ? error.message : error).replace(/:\d+$/, '');
      if (!isStopped) countUp(registrations, `${act} ${message}`);
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
    // A real agent reports its new status at once. A simulated one reports it with its next
    // heartbeat.
    systemClock.after(bootSeconds(random) * 1000, () => {
      if (agents.state[agent] === agentStates.booting) agents.state[agent] = agentStates.beating;
    });
  };

  const acts: Record<PlannedEvent['act'], (agent: number) => void> = {
    dies(agent) {
      agents.state[agent] = agentStates.dead;
      dead.set(agent, now(systemClock));
    },
    restarts: (agent) => void register('restarts', { version: 'bench' }, agents.credential(agent)),
    falters(agent) {
      agents.state[agent] = agentStates.faltering;
    },
    joins: (number) => void join(number),
  };

  const applyDueEvents = () => {
    if (isStopped) return;
    const seconds = (systemClock.nowMs() - startedMs) / 1000;
    for (let event = plan[nextIndex]; event && event.atSeconds <= seconds; event = plan[++nextIndex])
      acts[event.act](event.agent);
    systemClock.after(100, applyDueEvents);
  };
  applyDueEvents();
  return {
    dead,
    registrations,
    joinMs,
    stop() {
      isStopped = true;
      sockets.destroy();
    },
  };
}
