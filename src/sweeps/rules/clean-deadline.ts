/**
 * `clean-deadline`: cleaning → quarantined, if no allocation owns the cleanup. An allocation's
 * release has its own retries.
 */
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const cleanDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'clean-deadline',
    from: 'cleaning',
    to: 'quarantined',
    where: [['unowned']],
    reason: (waited) => `taking it down did not end in time and no allocation owns it (${waited})`,
  });
