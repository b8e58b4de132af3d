/**
 * `drain-deadline`: draining → quarantined or cleaning, as requested when the drain began, although
 * the node still has work.
 */
import { retireAllIn } from '../../operations/release/node-retire.ts';
import { evidenceOf } from '../../store/transitions/bulk/node-verdict.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const drainDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'drain-deadline',
    from: 'draining',
    to: (node) => (node.drain_then === 'retire' ? 'cleaning' : 'quarantined'),
    reason: (waited) => `it was not empty in time (${waited})`,
    async apply(tx, verdicts, now) {
      const by = 'drain-deadline' as const;
      const isRetirement = ({ to }: (typeof verdicts)[number]) => to === 'cleaning';
      const retirements = verdicts.filter(isRetirement).map((verdict) => {
        return { node: verdict.node, by, reason: verdict.reason, data: evidenceOf(verdict) };
      });
      const retiredIds = await retireAllIn(tx, services, retirements, now);
      const quarantines = verdicts.filter((verdict) => !isRetirement(verdict));
      const moves = quarantines.map((verdict) => {
        const { node, to, reason } = verdict;
        return { node_id: node.node_id, from: ['draining'] as const, to, by, reason, data: evidenceOf(verdict) };
      });
      const outcomes = await transition(tx, moves, now, services.environment);
      const quarantinedIds = new Set(
        quarantines.filter((_, index) => outcomes[index]?.moved).map(({ node }) => node.node_id),
      );
      return verdicts
        .map(({ node }) => node)
        .filter(({ node_id }) => retiredIds.has(node_id) || quarantinedIds.has(node_id));
    },
  });
