/** `stuck-starting`: starting → ready. The heartbeat proves life, the age proves that start-up is over. */
import { secondsBetween } from '../base/clock.ts';
import { transition } from '../store/door.ts';
import { lockDueNodes } from '../store/due.ts';
import type { SweepServices } from './registry.ts';
import { isFresh } from './start-deadline.ts';
import type { Sweep } from './sweep.ts';

const batch = 500;

export const stuckStarting = ({ db, environment }: SweepServices): Sweep => ({
  name: 'stuck-starting',
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const due = await lockDueNodes(tx, 'starting', now, batch);
      const outcomes = await transition(
        tx,
        due
          .filter((node) => isFresh(node, now))
          .map((node) => ({
            node_id: node.node_id,
            node_instance_id: node.node_instance_id ?? undefined,
            from: ['starting'] as const,
            to: 'ready' as const,
            by: 'stuck-starting' as const,
            reason: `it beats and registered ${Math.round(secondsBetween(node.status_since, now))} s ago, so start-up is over (budget from ${node.budget_source})`,
            data: {
              last_seen_at: node.last_seen_at,
              reported_status: node.reported_status,
              budget_seconds: node.budget_seconds,
            },
          })),
        now,
        environment,
      );
      return { decided: outcomes.filter((outcome) => outcome.moved).length };
    }),
});
