/** `offline-deadline`: offline → failed, when a node stayed away past its deadline. */
import { deadlineRule } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const offlineDeadline = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'offline-deadline',
    from: 'offline',
    to: 'failed',
    reason: (waited) => `it went offline and did not come back in time (${waited})`,
  });
