/**
 * `probe-promotes`: starting → ready, if the machine answered a probe or completed a task, although
 * it has not reported ready.
 */
import { lockProvenNodes } from '../../store/supervision/probes.ts';
import type { SweepServices } from '../runner/services.ts';
import { verdictSweep } from '../runner/verdict-sweep.ts';

const wakingKinds = ['probe.answered', 'task.succeeded', 'node.prerequisites'];

export const probePromotes = (services: SweepServices) =>
  verdictSweep(services, {
    name: 'probe-promotes',
    every_seconds: 5,
    isWokenBy: (kind) => wakingKinds.includes(kind),
    async find(tx, now, limit, except) {
      const proven = await lockProvenNodes(tx, limit, except);
      return proven.map((node) => ({
        node,
        to: 'ready' as const,
        reason: node.probe_ok_at ? 'it answered its probe' : 'it completed a task',
        due_at: node.probe_ok_at ?? now,
        data: { probe_ok_at: node.probe_ok_at, reported_status: node.reported_status },
      }));
    },
  });
