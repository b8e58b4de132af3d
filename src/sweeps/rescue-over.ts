/** `rescue-over`: failed → cleaning, when the rescue window ended; the machine is then destroyed with proof. */
import { retireAllIn } from '../operations/node-retire.ts';
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
      const retirements = verdicts.map(({ node, reason, data }) => ({
        node,
        by: 'rescue-over' as const,
        reason,
        data,
      }));
      const leaving = await retireAllIn(tx, services, retirements, now);
      return verdicts.map(({ node }) => node).filter(({ node_id }) => leaving.has(node_id));
    },
  });
