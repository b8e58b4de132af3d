/**
 * `clean-deadline`: cleaning → quarantined, if no allocation owns the cleanup. The cleanup of a
 * release is left to the release, which retries.
 */
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const cleanDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'clean-deadline',
    from: 'cleaning',
    to: 'quarantined',
    where: [['unowned']],
    reason: (waited) => `its teardown did not end in time and no allocation owns it (${waited})`,
  });
