/** `start-deadline`: starting → failed, when start-up should be over and the heartbeat is stale. */
import { deadlineRule, isFresh } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const startDeadline = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'start-deadline',
    from: 'starting',
    to: 'failed',
    applies: (node, now) => !isFresh(node, now),
    reason: (waited) => `start-up timed out: registered, then silent (${waited})`,
  });
