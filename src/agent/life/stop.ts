/** Stops an agent: records the first reason, and then shuts down in order. */
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
  end(): AgentEnd | null;
  /** Only the first request counts. */
  request(end: AgentEnd): void;
}

/** Every loop and every running call listens. With more listeners Node warns of a leak. */
const max_listeners = 40;

export function createStop(stopSignal: AbortSignal): AgentStop {
  const stopped = new AbortController();
  setMaxListeners(max_listeners, stopped.signal);
  let firstEnd: AgentEnd | null = null;
  const request = (end: AgentEnd) => {
    firstEnd ??= end;
    stopped.abort();
  };
  const onRequest = () => request({ code: 'stopped', reason: 'received a stop signal' });
  stopSignal.addEventListener('abort', onRequest, { once: true });
  if (stopSignal.aborted) onRequest();
  return { signal: stopped.signal, end: () => firstEnd, request };
}

/** Returns the exit for an internal error of the agent. */
export function toCrashEnd(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/**
 * Ends the agent, each step within a time limit. Only a fence, or a stop that asks for it, ends the
 * command. Otherwise the next agent adopts a running command, and `stopping` is not reported.
 * `shipper` is null if the agent never registered.
 */
export async function shutDown(
  parts: AgentParts,
  server: ControlPlane,
  shipper: LogShipper | null,
  { code, reason }: AgentEnd,
  stopEndsCommand: boolean,
): Promise<void> {
  const { clock, timing, report, work, log } = parts;
  const isFenced = code === 'instance_fenced';
  const endsCommand = isFenced || (code === 'stopped' && stopEndsCommand);
  const isLeftRunning = !endsCommand && (await work.leave());
  const command = isLeftRunning ? 'left running' : endsCommand ? 'ending' : 'not running';
  log.info('agent ended', { code, reason, command });
  const finalShipper = code === 'stopped' || isFenced ? shipper : null;
  if (!isLeftRunning) {
    report.set('stopping');
    const reportStopping = (until: AbortSignal) => server.heartbeat(report.current(), until);
    const reportsEnd = code === 'stopped' && shipper !== null;
    await Promise.all([
      reportsEnd ? withTimeLimit(clock, timing.farewell_ms, reportStopping) : null,
      endsCommand ? work.end() : null,
    ]);
  }
  // No process of a fenced instance may run at the same time as its successor.
  if (isFenced) await endProcesses(work.processes(), timing.stop_grace_ms, clock);
  if (finalShipper) await withTimeLimit(clock, timing.farewell_ms, finalShipper.flush);
}

async function withTimeLimit(clock: Clock, ms: number, run: (until: AbortSignal) => Promise<unknown>): Promise<void> {
  const limit = new AbortController();
  const done = run(limit.signal).finally(() => limit.abort());
  await pause(clock, ms, limit.signal);
  limit.abort();
  await done;
}
