/** `rescue-over`: failed → cleaning, when the rescue window ended; the machine is then destroyed with proof. */
import { retireIn } from '../operations/node-retire.ts';
import type { JudgedNode } from '../store/judged.ts';
import { deadlineRule } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const rescueOver = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'rescue-over',
    from: 'failed',
    to: 'cleaning',
    batch: 100,
    reason: () => 'its rescue window ended',
    async apply(tx, verdicts, now) {
      const moved: JudgedNode[] = [];
      for (const { node, reason, data } of verdicts)
        if (await retireIn(tx, services, node, { by: 'rescue-over', reason, data }, now)) moved.push(node);
      return moved;
    },
  });
