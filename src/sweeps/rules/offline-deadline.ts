/** `offline-deadline`: offline → failed, if a node does not return by its deadline. */
import type { DueNode } from '../../store/supervision/past-deadline.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

/** Whether the provider has shown the machine as absent or exited since the node fell silent. */
const isGone = ({ observed_state, is_observation_current }: DueNode) =>
  is_observation_current === true && ['absent', 'exited'].includes(observed_state ?? '');

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
    refusedReason: (waited, refusal) => `it went offline and could not come back in time: ${refusal} (${waited})`,
  });
