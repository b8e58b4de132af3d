/** `offline-deadline`: offline → failed, if a node does not return by its deadline. */
import type { DueNode } from '../../store/supervision/past-deadline.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

/** Since the node fell silent, the provider has shown its machine as absent or exited. */
const isGone = ({ observed_state, observed_since }: DueNode) =>
  observed_since === true && ['absent', 'exited'].includes(observed_state ?? '');

export const offlineDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'offline-deadline',
    from: 'offline',
    to: 'failed',
    hasEnded: isGone,
    reason: (waited, node) =>
      isGone(node)
        ? `it fell silent, and its machine is gone: the provider shows it as ${node.observed_state}, so the deadline was moved to now`
        : `it went offline and did not come back in time (${waited})`,
    refused: (waited, refusal) => `it went offline and could not come back in time: ${refusal} (${waited})`,
  });
