/** `provision-deadline`: provisioning → failed, when the deadline passed and nothing registered. */
import { deadlineRule } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const provisionDeadline = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'provision-deadline',
    from: 'provisioning',
    to: 'failed',
    reason: (waited, node) =>
      node.waiting_for === 'capacity'
        ? `provisioning timed out: the provider granted no capacity (${waited})`
        : `provisioning timed out: launched but never registered (${waited})`,
  });
