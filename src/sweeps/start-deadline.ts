/** `start-deadline`: starting → failed, when start-up should be over and the heartbeat is stale, or nobody said that what the pool asks for is there. */
import { deadlineRule } from './deadline-rule.ts';
import type { SweepServices } from './services.ts';

export const startDeadline = (services: SweepServices) =>
  deadlineRule(services, {
    name: 'start-deadline',
    from: 'starting',
    to: 'failed',
    where: [['silent'], ['incomplete']],
    reason: (waited, node) =>
      node.prerequisites === 'unchecked'
        ? `start-up timed out: it never said whether its prerequisites are met (${waited})`
        : `start-up timed out: registered, then silent (${waited})`,
  });
