/**
 * Shuts an agent down: reports `stopping`, ends the workload, ships the last lines. Each part has a
 * time limit.
 */
import { type Clock, pause } from '../../base/clock.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import { endProcesses } from '../process/process-group.ts';
import type { LogShipper } from '../spool/log-shipper.ts';
import type { AgentParts } from './agent-parts.ts';
import type { AgentEnd } from './exit.ts';

/** `shipper` is null if the agent never registered; there is then no node to report for. */
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
