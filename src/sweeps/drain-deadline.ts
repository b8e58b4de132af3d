/** `drain-deadline`: draining → quarantined or cleaning, as was asked when the drain began. */
import { retireIn } from '../operations/node-retire.ts';
import { transition } from '../store/door.ts';
import type { JudgedNode } from '../store/judged.ts';
import { deadlineRule } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const drainDeadline = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'drain-deadline',
    from: 'draining',
    to: (node) => (node.drain_then === 'retire' ? 'cleaning' : 'quarantined'),
    reason: (waited) => `it was not empty in time (${waited})`,
    async apply(tx, verdicts, now) {
      const moved: JudgedNode[] = [];
      for (const { node, to, reason, data } of verdicts) {
        const cited = { by: 'drain-deadline' as const, reason, data };
        if (to === 'cleaning') {
          if (await retireIn(tx, services, node, cited, now)) moved.push(node);
          continue;
        }
        const move = { ...cited, node_id: node.node_id, from: ['draining'] as const, to };
        const [outcome] = await transition(tx, [move], now, services.environment);
        if (outcome?.moved) moved.push(node);
      }
      return moved;
    },
  });
