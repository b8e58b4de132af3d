/**
 * `observation`: inspects agentless machines as often as an agent would send heartbeats. An
 * answer that shows the machine counts as heartbeat and report, so liveness judges these machines
 * like others. A machine whose provider cannot be asked is held.
 */
import type { NodeId } from '../../base/ids.ts';
import {
  findAgentlessMachinesToInspect,
  holdUnseen,
  inspectionPace,
  recordSightings,
} from '../../store/supervision/agentless-machines.ts';
import { createInspector } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Results are stored per batch, so that a hanging provider does not delay all of them. */
const batch = 32;
const everySeconds = 2;

export function observation(services: SweepServices): Sweep {
  const { db, clock, drivers, environment } = services;
  const inspect = createInspector(services);
  /**
   * The earliest next inspection of each machine. Without it, every pass would inspect a machine
   * again that the provider did not answer about.
   */
  const notBeforeMs = new Map<NodeId, number>();
  return {
    name: 'observation',
    every_seconds: everySeconds,
    async run(now) {
      const agentlessDrivers = [...drivers.values()].filter(({ supervision }) => supervision === 'agentless');
      const names = agentlessDrivers.map(({ name }) => name);
      if (names.length === 0) return { decided: 0 };
      for (const [id, ms] of notBeforeMs) if (clock.monotonicMs() >= ms) notBeforeMs.delete(id);
      const machines = await findAgentlessMachinesToInspect(db, names, [...notBeforeMs.keys()], now, batch);
      if (machines.length === 0) return { decided: 0 };
      const { inspections, missed } = await inspect(machines);
      const inspectedMs = clock.monotonicMs();
      for (const machine of machines)
        notBeforeMs.set(
          machine.node_id,
          inspectedMs + 1000 * (inspectionPace(machine).interval_seconds - everySeconds / 2),
        );
      const decided = inspections.length === 0 ? 0 : await recordSightings(db, inspections, now, environment);
      if (missed.length > 0) await holdUnseen(db, missed, now);
      return { decided, more: machines.length === batch };
    },
  };
}
