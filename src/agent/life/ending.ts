/** The one end of an agent's life: the first reason counts, and everything that lives listens to the signal. */
import { setMaxListeners } from 'node:events';
import type { AgentEnd } from './exit.ts';

export interface Ending {
  signal: AbortSignal;
  /** Null while it lives. */
  how(): AgentEnd | null;
  end(how: AgentEnd): void;
}

/** Every loop and every call under way listens; more than this would be a leak, and Node then says so. */
const most_listeners = 40;

export function ending(stop: AbortSignal): Ending {
  const life = new AbortController();
  setMaxListeners(most_listeners, life.signal);
  let first: AgentEnd | null = null;
  const end = (how: AgentEnd) => {
    first ??= how;
    life.abort();
  };
  const stopped = () => end({ code: 'stopped', reason: 'told to stop' });
  stop.addEventListener('abort', stopped, { once: true });
  if (stop.aborted) stopped();
  return { signal: life.signal, how: () => first, end };
}

/** A defect of the agent itself. */
export function crashed(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}
