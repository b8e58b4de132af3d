/** The stop of an agent: which reason came first, and the shutdown that follows it. */
import { setMaxListeners } from 'node:events';
import { type Clock, pause } from '../../base/clock.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import { endProcesses } from '../process/process-group.ts';
import type { LogShipper } from '../spool/log-shipper.ts';
import type { AgentParts } from './agent-parts.ts';
import type { AgentEnd } from './exit.ts';

export interface AgentStop {
  /** Aborted when the agent should stop; every loop listens to it. */
  signal: AbortSignal;
  /** Null while the agent runs. */
  how(): AgentEnd | null;
  /** Only the first request counts. */
  request(how: AgentEnd): void;
}

/**
 * Every loop and every running call listens. More listeners than this are a leak, and Node warns.
 */
const max_listeners = 40;

export function createStop(requested: AbortSignal): AgentStop {
  const stopped = new AbortController();
  setMaxListeners(max_listeners, stopped.signal);
  let first: AgentEnd | null = null;
  const request = (how: AgentEnd) => {
    first ??= how;
    stopped.abort();
  };
  const onRequest = () => request({ code: 'stopped', reason: 'told to stop' });
  requested.addEventListener('abort', onRequest, { once: true });
  if (requested.aborted) onRequest();
  return { signal: stopped.signal, how: () => first, request };
}

/** Returns the exit for an internal error of the agent. */
export function crashed(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/**
 * Reports `stopping`, ends the workload, ships the last lines. Each part has a time limit.
 * `shipper` is null if the agent never registered; there is then no node to report for.
 */
export async function shutDown(
  parts: AgentParts,
  server: ControlPlane,
  shipper: LogShipper | null,
  { code, reason }: AgentEnd,
): Promise<void> {
  const { clock, timing, report, work, log } = parts;
  log.info('agent ends', { code, reason });
  const stoppedShipper = code === 'stopped' ? shipper : null;
  report.set('stopping');
  const reportStopping = (until: AbortSignal) => server.heartbeat(report.current(), until);
  await Promise.all([stoppedShipper ? within(clock, timing.farewell_ms, reportStopping) : null, work.end()]);
  // Nothing of a fenced instance may run beside its successor.
  if (code === 'instance_fenced') await endProcesses(work.processes(), timing.stop_grace_ms, clock);
  const shipping = code === 'instance_fenced' ? shipper : stoppedShipper;
  if (shipping) await within(clock, timing.farewell_ms, shipping.flush);
}

async function within(clock: Clock, ms: number, run: (until: AbortSignal) => Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const done = run(over.signal).finally(() => over.abort());
  await pause(clock, ms, over.signal);
  over.abort();
  await done;
}
