/**
 * `release-deadline`: releasing → release_failed, if the release is overdue or its operation ended
 * without an outcome. The verdict names the unfinished step. `release-retry` continues from there.
 */
import { secondsBetween } from '../../base/clock.ts';
import { type OwnerLayer, ownerLayers } from '../../contract/errors/problem.ts';
import { type Blame, findCleanupBlame, type OpenStep } from '../../lifecycle/findings/launch-blame.ts';
import { readOpenSteps } from '../../store/supervision/launch-steps.ts';
import { type LostRelease, lockLostReleases } from '../../store/supervision/past-deadline.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { dataOf } from './define-deadline-rule.ts';

const batch = 500;

const ownerOf = (blame: Blame | null): OwnerLayer =>
  ownerLayers.find((layer) => layer === blame?.owner_layer) ?? 'workflow';

/** Returns the reason, the owner and the data of the verdict. */
function explainVerdict(release: LostRelease, step: OpenStep | undefined, now: Date) {
  const { operation_ended, status_since, budget_source } = release;
  const overran = operation_ended ? 'its release ended without an outcome' : 'its release is overdue';
  const blame = findCleanupBlame(step, overran);
  const waited = `waited ${Math.round(secondsBetween(status_since, now))} s, budget from ${budget_source}`;
  const reason = `${blame?.says ?? overran}${operation_ended ? '' : ` (${waited})`}`;
  return { reason, owner_layer: ownerOf(blame), data: dataOf(blame) };
}

export const releaseDeadline = ({ db, environment }: SweepServices): Sweep => ({
  name: 'release-deadline',
  every_seconds: 2,
  isWokenBy: (kind) => kind === 'operation.failed',
  // A release that has used up its tries writes this verdict itself, in the name of this rule, so
  // decisions are counted from evidence.
  isDecision: ({ kind, data }) => kind === 'allocation.release_failed' && data.by === 'release-deadline',
  run: (now) =>
    db.transaction(async (tx) => {
      const overdue = await lockLostReleases(tx, now, batch);
      const steps = await readOpenSteps(
        tx,
        overdue.map(({ workflow_id }) => workflow_id),
      );
      const outcomes = await moveAllocations(
        tx,
        overdue.map((allocation) => ({
          allocation_id: allocation.allocation_id,
          from: ['releasing'] as const,
          to: 'release_failed' as const,
          by: 'release-deadline' as const,
          ...explainVerdict(allocation, allocation.workflow_id ? steps.get(allocation.workflow_id) : undefined, now),
          set: { release_tries: allocation.release_tries + 1 },
        })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length };
    }),
});
