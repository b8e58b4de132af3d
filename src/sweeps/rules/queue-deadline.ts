/** `queue-deadline`: requested → failed, if an allocation gets no machine by its deadline. */
import { secondsBetween } from '../../base/clock.ts';
import { lockDueAllocations } from '../../store/supervision/past-deadline.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;

export const queueDeadline = ({ db, environment }: SweepServices): Sweep => ({
  name: 'queue-deadline',
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const due = await lockDueAllocations(tx, 'requested', now, batch);
      const outcomes = await moveAllocations(
        tx,
        due.map((allocation) => ({
          allocation_id: allocation.allocation_id,
          from: ['requested'] as const,
          to: 'failed' as const,
          by: 'queue-deadline' as const,
          owner_layer: 'control_plane' as const,
          reason: `no machine was available in time (waited ${Math.round(secondsBetween(allocation.created_at, now))} s, budget from ${allocation.budget_source})`,
        })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length };
    }),
});
