/** `start-deadline`: starting → failed, when start-up should be over and the heartbeat is stale. */
import { secondsBetween } from '../base/clock.ts';
import { transition } from '../store/door.ts';
import { type DueNode, lockDueNodes } from '../store/due.ts';
import type { SweepServices } from './registry.ts';
import type { Sweep } from './sweep.ts';

const batch = 500;

export const isFresh = (node: DueNode, now: Date): boolean =>
  node.last_seen_at !== null &&
  node.stale_seconds !== null &&
  secondsBetween(node.last_seen_at, now) <= node.stale_seconds;

export const startDeadline = ({ db, environment }: SweepServices): Sweep => ({
  name: 'start-deadline',
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const due = await lockDueNodes(tx, 'starting', now, batch);
      const outcomes = await transition(
        tx,
        due
          .filter((node) => !isFresh(node, now))
          .map((node) => ({
            node_id: node.node_id,
            node_instance_id: node.node_instance_id ?? undefined,
            from: ['starting'] as const,
            to: 'failed' as const,
            by: 'start-deadline' as const,
            reason: `start-up timed out: registered, then silent (waited ${Math.round(secondsBetween(node.status_since, now))} s, budget from ${node.budget_source})`,
            data: {
              last_seen_at: node.last_seen_at,
              stale_seconds: node.stale_seconds,
              budget_seconds: node.budget_seconds,
            },
          })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length };
    }),
});
