/**
 * `rescue-over`: failed → cleaning, when the rescue window ends. The machine is then destroyed with
 * proof.
 */
import { retireAllIn } from '../../operations/release/node-retire.ts';
import { evidenceOf } from '../../store/transitions/bulk/node-verdict.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const rescueOver = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'rescue-over',
    from: 'failed',
    to: 'cleaning',
    batch: 100,
    reason: () => 'its rescue window ended',
    async apply(tx, verdicts, now) {
      const retirements = verdicts.map((verdict) => {
        const { node, reason } = verdict;
        return { node, by: 'rescue-over' as const, reason, data: evidenceOf(verdict) };
      });
      const retiredIds = await retireAllIn(tx, services, retirements, now);
      return verdicts.map(({ node }) => node).filter(({ node_id }) => retiredIds.has(node_id));
    },
  });
