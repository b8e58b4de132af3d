/**
 * A million honest agents: what each must know of itself, in arrays of numbers. Whatever can be computed from an agent's number
 * is not kept: its credential, which relay it stands behind, what it says of itself.
 */
import { credentialOf } from '../harness/resting-fleet.ts';
import { timingWheel, type Wheel } from './wheel.ts';

/** What an agent does when its time comes. */
export const doing = { beats: 0, boots: 1, dead: 2, falters: 3 } as const;

export interface Agents {
  wheel: Wheel;
  /** How many there are now; those that join come behind those that were there from the beginning. */
  count(): number;
  state: Uint8Array;
  /** When its last beat that was answered was sent, and when it was answered. */
  sentMs: Float64Array;
  answeredMs: Float64Array;
  /** The interval it was last told. */
  interval: Float32Array;
  /** When it was due; how long beats wait for their answer is counted from there. */
  dueMs: Float64Array;
  credential(agent: number): string;
  /** What it says with a beat, as our agent does, without the credential. */
  said(agent: number): string;
  join(credential: string, name: string): number;
  nameOf(agent: number): string;
}

const saying = ['ready', 'starting', 'ready', 'ready'].map(
  (status) => `"status":"${status}","health_score":100,"error_rate":0,"active_tasks":0`,
);

export function createAgents(filled: number, joining: number, fromMs: number): Agents {
  const size = filled + joining;
  const joined: { credential: string; name: string }[] = [];
  const state = new Uint8Array(size);
  const newcomer = (agent: number) => {
    const found = joined[agent - filled];
    if (!found) throw new Error(`agent ${agent} has not joined`);
    return found;
  };
  return {
    wheel: timingWheel(size, fromMs),
    count: () => filled + joined.length,
    state,
    sentMs: new Float64Array(size),
    answeredMs: new Float64Array(size),
    interval: new Float32Array(size),
    dueMs: new Float64Array(size),
    // Those who were filled in are numbered from 1.
    credential: (agent) => (agent < filled ? credentialOf(agent + 1) : newcomer(agent).credential),
    said: (agent) => saying[state[agent] ?? 0] ?? '',
    join(credential, name) {
      if (joined.length >= joining) throw new Error('more joined than there is room for');
      joined.push({ credential, name });
      const agent = filled + joined.length - 1;
      state[agent] = doing.boots;
      return agent;
    },
    nameOf: (agent) => (agent < filled ? `machine-${String(agent + 1).padStart(7, '0')}` : newcomer(agent).name),
  };
}
