/** How an agent leaves. Each part has its bound, so that whoever told it to stop can rely on an end. */
import { type Clock, pause } from '../../base/clock.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import { endProcesses } from '../process/process-group.ts';
import type { LogShipper } from '../spool/log-shipper.ts';
import type { AgentParts } from './agent-parts.ts';
import type { AgentEnd } from './exit.ts';

/** `shipper` is null for an agent that never came to registering: nobody would know who says goodbye. */
export async function farewell(
  parts: AgentParts,
  server: ControlPlane,
  shipper: LogShipper | null,
  { code, reason }: AgentEnd,
): Promise<void> {
  const { clock, timing, claims, work, log } = parts;
  log.info('agent ends', { code, reason });
  const speaking = code === 'stopped' ? shipper : null;
  claims.claim('stopping');
  const goodbye = (until: AbortSignal) => server.heartbeat(claims.current(), until);
  await Promise.all([speaking ? within(clock, timing.farewell_ms, goodbye) : null, work.end()]);
  // Nothing of a fenced instance may go on working beside its successor.
  if (code === 'instance_fenced') await endProcesses(work.processes(), timing.stop_grace_ms, clock);
  const shipping = code === 'instance_fenced' ? shipper : speaking;
  if (shipping) await within(clock, timing.farewell_ms, shipping.flush);
}

async function within(clock: Clock, ms: number, run: (until: AbortSignal) => Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const done = run(over.signal).finally(() => over.abort());
  await pause(clock, ms, over.signal);
  over.abort();
  await done;
}
