/**
 * `drained`: draining → quarantined or cleaning as soon as the node is empty, as requested when the
 * drain began.
 */
import { retireAllIn } from '../../operations/release/node-retire.ts';
import { lockEmptyNodes } from '../../store/supervision/past-deadline.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 100;
const wakingKinds = ['node.draining', 'allocation.released', 'allocation.failed', 'task.succeeded', 'task.failed'];
const cause = { by: 'drained' as const, reason: 'it is empty' };

export const drained = (services: SweepServices): Sweep => ({
  name: 'drained',
  every_seconds: 5,
  isWokenBy: (kind) => wakingKinds.includes(kind),
  run: (now) =>
    services.db.transaction(async (tx) => {
      const empty = await lockEmptyNodes(tx, batch);
      const toRetire = empty.filter((node) => node.drain_then === 'retire');
      const toQuarantine = empty.filter((node) => node.drain_then !== 'retire');
      const retirements = toRetire.map((node) => ({ ...cause, node }));
      await retireAllIn(tx, services, retirements, now);
      const moves = toQuarantine.map(({ node_id }) => ({
        ...cause,
        node_id,
        from: ['draining'] as const,
        to: 'quarantined' as const,
      }));
      requireMoved(await transition(tx, moves, now, services.environment), 'observe_only');
      return { decided: empty.length, more: empty.length === batch };
    }),
});
