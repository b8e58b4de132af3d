/**
 * `release-deadline`: releasing → release_failed, if the release is overdue or its operation ended
 * without an outcome. `release-retry` continues from there.
 */
import { secondsBetween } from '../../base/clock.ts';
import { lockLostReleases } from '../../store/supervision/past-deadline.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;

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
      const outcomes = await moveAllocations(
        tx,
        overdue.map((allocation) => ({
          allocation_id: allocation.allocation_id,
          from: ['releasing'] as const,
          to: 'release_failed' as const,
          by: 'release-deadline' as const,
          owner_layer: 'workflow' as const,
          reason: allocation.operation_ended
            ? 'its release ended without an outcome'
            : `its release is overdue (waited ${Math.round(secondsBetween(allocation.status_since, now))} s, budget from ${allocation.budget_source})`,
          set: { release_tries: allocation.release_tries + 1 },
        })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length };
    }),
});
