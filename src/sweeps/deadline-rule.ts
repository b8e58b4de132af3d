/** The shape that rules on a node's deadline share: find what is due, keep those the rule speaks of, hand them to the door together. */
import { secondsBetween } from '../base/clock.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import type { Cause } from '../lifecycle/transitions.ts';
import { transition } from '../store/door.ts';
import { type DueNode, lockDueNodes } from '../store/due.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

export interface DeadlineRule {
  name: Cause;
  from: NodeStatus;
  to: NodeStatus;
  /** Of those that are due, the ones this rule decides on; all, unless told. */
  applies?(node: DueNode, now: Date): boolean;
  /** A sentence for a tired person; `waited` says how long and where the budget came from. */
  reason(waited: string): string;
}

const batch = 500;

const waitedFor = (node: DueNode, now: Date) =>
  `waited ${Math.round(secondsBetween(node.status_since, now))} s, budget from ${node.budget_source}`;

export const deadlineRule = ({ db, environment }: SweepServices, rule: DeadlineRule): Sweep => ({
  name: rule.name,
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const due = await lockDueNodes(tx, rule.from, now, batch);
      const decided = due.filter((node) => rule.applies?.(node, now) ?? true);
      const outcomes = await transition(
        tx,
        decided.map((node) => ({
          node_id: node.node_id,
          node_instance_id: node.node_instance_id ?? undefined,
          from: [rule.from],
          to: rule.to,
          by: rule.name,
          reason: rule.reason(waitedFor(node, now)),
          data: {
            deadline_at: node.deadline_at,
            budget_seconds: node.budget_seconds,
            budget_source: node.budget_source,
            last_seen_at: node.last_seen_at,
            stale_seconds: node.stale_seconds,
            reported_status: node.reported_status,
          },
        })),
        now,
        environment,
      );
      // A full batch of which none moved would be found again at once; the next tick is soon enough for it.
      const moved = outcomes.filter((outcome) => outcome.moved).length;
      return { decided: moved, more: due.length === batch && moved > 0 };
    }),
});

/** The heartbeat is younger than this node's own stale time. */
export const isFresh = (node: DueNode, now: Date): boolean =>
  node.last_seen_at !== null &&
  node.stale_seconds !== null &&
  secondsBetween(node.last_seen_at, now) <= node.stale_seconds;
