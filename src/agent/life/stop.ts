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
export function crashed(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/**
 * Ends the agent, each step within a time limit. A stop that leaves the command running says no
 * goodbye, because the machine still works: the next agent adopts the command. Only a fence and a
 * stop that asks for it end the command. `shipper` is null if the agent never registered; then
 * there is no node to report for.
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
  const isLeft = !endsCommand && (await work.leave());
  log.info('agent ended', { code, reason, command: isLeft ? 'left running' : 'ended' });
  const finalShipper = code === 'stopped' || isFenced ? shipper : null;
  if (!isLeft) {
    report.set('stopping');
    const reportStopping = (until: AbortSignal) => server.heartbeat(report.current(), until);
    const saysGoodbye = code === 'stopped' && shipper !== null;
    await Promise.all([
      saysGoodbye ? withTimeLimit(clock, timing.farewell_ms, reportStopping) : null,
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
