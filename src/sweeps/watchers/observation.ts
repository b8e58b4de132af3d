/**
 * `observation`: inspects agentless machines as often as an agent would beat. The provider's answer
 * counts as heartbeat and report, and liveness judges it like any other. A machine whose provider
 * cannot be asked is held.
 */
import type { NodeId } from '../../base/ids.ts';
import {
  agentlessMachinesToInspect,
  holdUnseen,
  inspectionPace,
  recordSightings,
} from '../../store/supervision/agentless-machines.ts';
import { createLooker } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Results are stored per batch, so that a hanging provider does not delay all of them. */
const batch = 32;
const everySeconds = 2;

export function observation(services: SweepServices): Sweep {
  const { db, clock, drivers, environment } = services;
  const look = createLooker(services);
  /** When to ask again about a machine without an answer; otherwise every pass would ask. */
  const againMs = new Map<NodeId, number>();
  return {
    name: 'observation',
    every_seconds: everySeconds,
    async run(now) {
      const observing = [...drivers.values()].filter(({ supervision }) => supervision === 'observe');
      const names = observing.map(({ name }) => name);
      if (names.length === 0) return { decided: 0 };
      for (const [id, ms] of againMs) if (clock.monotonicMs() >= ms) againMs.delete(id);
      const machines = await agentlessMachinesToInspect(db, names, [...againMs.keys()], now, batch);
      if (machines.length === 0) return { decided: 0 };
      const { looked, missed } = await look(machines);
      const askedMs = clock.monotonicMs();
      for (const machine of machines)
        againMs.set(machine.node_id, askedMs + inspectionPace(machine).interval_seconds * 1000 - everySeconds * 500);
      const decided = looked.length === 0 ? 0 : await recordSightings(db, looked, now, environment);
      if (missed.length > 0) await holdUnseen(db, missed, now);
      return { decided, more: machines.length === batch };
    },
  };
}
