/**
 * `start-deadline`: starting → failed, if start-up after registration is overdue, and either the
 * heartbeat is stale or the prerequisites are not confirmed. The boot before registration has its
 * own rule, provision-deadline.ts.
 */
import type { Prerequisites } from '../../lifecycle/model/reports.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

const problems: Record<NonNullable<Prerequisites>, string> = {
  unchecked: 'it never said whether its prerequisites are met',
  missing: 'a prerequisite is still missing',
  met: 'registered, then silent',
};

export const startDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'start-deadline',
    from: 'starting',
    to: 'failed',
    where: [['silent'], ['incomplete']],
    reason: (waited, { prerequisites }) => `start-up timed out: ${problems[prerequisites ?? 'met']} (${waited})`,
    refusedReason: (waited, refusal) => `start-up timed out: ${refusal} (${waited})`,
  });
