/** `provision-deadline`: provisioning → failed, when the deadline passed and nothing registered. */
import { secondsBetween } from '../base/clock.ts';
import { transition } from '../store/door.ts';
import { lockDueNodes } from '../store/due.ts';
import type { SweepServices } from './registry.ts';
import type { Sweep } from './sweep.ts';

const batch = 500;

export const provisionDeadline = ({ db, environment }: SweepServices): Sweep => ({
  name: 'provision-deadline',
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const due = await lockDueNodes(tx, 'provisioning', now, batch);
      const outcomes = await transition(
        tx,
        due.map((node) => ({
          node_id: node.node_id,
          node_instance_id: node.node_instance_id ?? undefined,
          from: ['provisioning'] as const,
          to: 'failed' as const,
          by: 'provision-deadline' as const,
          reason: `provisioning timed out: launched but never registered (waited ${Math.round(secondsBetween(node.status_since, now))} s, budget from ${node.budget_source})`,
          data: {
            deadline_at: node.deadline_at,
            budget_seconds: node.budget_seconds,
            budget_source: node.budget_source,
          },
        })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length, more: due.length === batch };
    }),
});
