/**
 * `clean-deadline`: cleaning → quarantined, if no allocation owns the cleanup. The cleanup of a
 * release is left to the release, which retries. The verdict names the unfinished step.
 */
import { findCleanupBlame } from '../../lifecycle/findings/launch-blame.ts';
import { readOpenSteps } from '../../store/supervision/launch-steps.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

const overran = 'its teardown did not end in time';

export const cleanDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'clean-deadline',
    from: 'cleaning',
    to: 'quarantined',
    where: [['unowned']],
    reason: (waited, _, blame) => `${blame?.says ?? overran}; no allocation owns it (${waited})`,
    async blame(tx, due) {
      const steps = await readOpenSteps(
        tx,
        due.map(({ workflow_id }) => workflow_id),
      );
      return ({ workflow_id }) => (workflow_id && findCleanupBlame(steps.get(workflow_id), overran)) || undefined;
    },
  });
