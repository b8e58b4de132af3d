/**
 * `provision-deadline`: provisioning → failed. The boot overran: the deadline passed before the
 * machine registered. The verdict names the unfinished step. The comparison with the deadline is
 * `isDue` in store/supervision/past-deadline.ts, for every deadline rule on nodes.
 */
import type { Driver } from '../../drivers/driver.ts';
import { findLaunchBlame } from '../../lifecycle/findings/launch-blame.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import { type OpenLaunchStep, readOpenLaunchSteps } from '../../store/supervision/launch-steps.ts';
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

/** A driver with a single phase sometimes names its step differently from the phase. */
function ownerOf(driver: Driver | undefined, { name, spec }: OpenLaunchStep): string | null {
  const phases = driver?.plan(spec) ?? [];
  const planned = phases.find(({ phase }) => phase === phaseOf(name)) ?? (phases.length === 1 ? phases[0] : undefined);
  return planned?.owner_layer ?? null;
}

export const provisionDeadline = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'provision-deadline',
    from: 'provisioning',
    to: 'failed',
    reason: (waited, { waiting_for }, blame = findLaunchBlame(null, waiting_for)) => `${blame.says} (${waited})`,
    async blame(tx, due) {
      const steps = await readOpenLaunchSteps(tx, due);
      return ({ node_id, waiting_for }) => {
        const step = steps.get(node_id);
        const owner_layer = step ? ownerOf(services.drivers.get(step.driver), step) : null;
        return findLaunchBlame(step ? { ...step, owner_layer } : null, waiting_for);
      };
    },
  });
