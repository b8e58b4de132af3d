/**
 * `observation`: looks at machines that no agent speaks for, each as often as an agent would beat. What their provider shows counts
 * as their beat and as what they say; liveness then judges them like any other. One whose provider cannot be asked is held.
 */
import type { NodeId } from '../../base/ids.ts';
import {
  holdUnseen,
  keepSightings,
  machinesToObserve,
  paceOfLooks,
} from '../../store/supervision/agentless-machines.ts';
import { createLooker } from '../runner/looker.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** What was seen of so many is kept before the next are asked: where a provider hangs, nobody waits for the looks at all. */
const batch = 32;
const everySeconds = 2;

export function observation(services: SweepServices): Sweep {
  const { db, clock, drivers, environment } = services;
  const look = createLooker(services);
  /** Whom not to ask again yet: one that gave no beat would else be asked in every pass. */
  const againMs = new Map<NodeId, number>();
  return {
    name: 'observation',
    every_seconds: everySeconds,
    async run(now) {
      const observing = [...drivers.values()].filter(({ supervision }) => supervision === 'observe');
      const names = observing.map(({ name }) => name);
      if (names.length === 0) return { decided: 0 };
      for (const [id, ms] of againMs) if (clock.monotonicMs() >= ms) againMs.delete(id);
      const machines = await machinesToObserve(db, names, [...againMs.keys()], now, batch);
      if (machines.length === 0) return { decided: 0 };
      const { looked, missed } = await look(machines);
      const askedMs = clock.monotonicMs();
      for (const machine of machines)
        againMs.set(machine.node_id, askedMs + paceOfLooks(machine).interval_seconds * 1000 - everySeconds * 500);
      const decided = looked.length === 0 ? 0 : await keepSightings(db, looked, now, environment);
      if (missed.length > 0) await holdUnseen(db, missed, now);
      return { decided, more: machines.length === batch };
    },
  };
}
