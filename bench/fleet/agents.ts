/**
 * Holds the state of a million agents in numeric arrays. Values that follow from an agent's number,
 * such as its credential, relay and report, are computed and not stored.
 */
import { credentialOf } from '../harness/resting-fleet.ts';
import { timingWheel, type Wheel } from './wheel.ts';

/** The behavior of an agent when its next heartbeat is due. */
export const agentStates = { beating: 0, booting: 1, dead: 2, faltering: 3 } as const;

export interface Agents {
  wheel: Wheel;
  /** The current number of agents. Agents that join come after the initial ones. */
  count(): number;
  state: Uint8Array;
  /** When each agent's last answered heartbeat was sent, and when it was answered. */
  sentMs: Float64Array;
  answeredMs: Float64Array;
  /** The interval that the server assigned last. */
  interval: Float32Array;
  /** When the current heartbeat was due; waiting times count from here. */
  dueMs: Float64Array;
  credential(agent: number): string;
  /** The fields of a heartbeat as JSON, as our agent sends them, without braces and credential. */
  reportOf(agent: number): string;
  join(credential: string, name: string): number;
  nameOf(agent: number): string;
}

/** Indexed by the values of `agentStates`. */
const reports = ['ready', 'starting', 'ready', 'ready'].map(
  (status) => `"status":"${status}","health_score":100,"error_rate":0,"active_tasks":0`,
);

export function createAgents(filled: number, joining: number, fromMs: number): Agents {
  const size = filled + joining;
  const joined: { credential: string; name: string }[] = [];
  const state = new Uint8Array(size);
  const newcomer = (agent: number) => {
    const registered = joined[agent - filled];
    if (!registered) throw new Error(`agent ${agent} has not joined`);
    return registered;
  };
  return {
    wheel: timingWheel(size, fromMs),
    count: () => filled + joined.length,
    state,
    sentMs: new Float64Array(size),
    answeredMs: new Float64Array(size),
    interval: new Float32Array(size),
    dueMs: new Float64Array(size),
    // The initial agents are numbered from 1.
    credential: (agent) => (agent < filled ? credentialOf(agent + 1) : newcomer(agent).credential),
    reportOf: (agent) => reports[state[agent] ?? 0] ?? '',
    join(credential, name) {
      if (joined.length >= joining) throw new Error(`more than ${joining} agents joined`);
      joined.push({ credential, name });
      const agent = filled + joined.length - 1;
      state[agent] = agentStates.booting;
      return agent;
    },
    nameOf: (agent) => (agent < filled ? `machine-${String(agent + 1).padStart(7, '0')}` : newcomer(agent).name),
  };
}
