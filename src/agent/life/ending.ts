/** The end of an agent's life: the first reason counts, and every loop listens to the signal. */
import { setMaxListeners } from 'node:events';
import type { AgentEnd } from './exit.ts';

export interface Ending {
  signal: AbortSignal;
  /** Null while the agent runs. */
  how(): AgentEnd | null;
  end(how: AgentEnd): void;
}

/**
 * Every loop and every running call listens. More listeners than this are a leak, and Node warns.
 */
const max_listeners = 40;

export function ending(stop: AbortSignal): Ending {
  const life = new AbortController();
  setMaxListeners(max_listeners, life.signal);
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

/** An internal error of the agent. */
export function crashed(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}
