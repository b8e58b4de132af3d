/** The rules on a node's deadline: one declaration each, the same pass for all of them. */
import { moment, secondsBetween } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Blame } from '../../lifecycle/findings/launch-blame.ts';
import { type NodeRuleName, nodeRules } from '../../lifecycle/model/rules.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Transaction } from '../../store/pg/database.ts';
import {
  countDueNodes,
  type DueCondition,
  type DueNode,
  lockDueNodes,
  nextDueAt,
} from '../../store/supervision/due.ts';
import { ownerOfRefusal, refusedInWords } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type VerdictRule, verdictSweep } from '../runner/verdict-sweep.ts';

export interface DeadlineRule extends Pick<VerdictRule, 'apply' | 'batch'> {
  name: NodeRuleName;
  from: NodeStatus;
  to: NodeStatus | ((node: DueNode) => NodeStatus);
  /** Of those that are due, the ones this rule decides on; all, unless told. */
  where?: readonly (readonly DueCondition[])[];
  /** A sentence for a tired person; `waited` says how long and where the budget came from. */
  reason(waited: string, node: DueNode, blame?: Blame): string;
  /** Finds the failed step and its owner, for rules that need more than the node's row. Called once per batch. */
  blame?(tx: Transaction, due: readonly DueNode[]): Promise<(node: DueNode) => Blame>;
  /** The same of a machine whose beats arrive and are refused, where the rule judges by them. */
  refused?(waited: string, refusal: string): string;
  /** Whether the machine was seen to have ended, so that waiting does not bring it back. */
  certain?(node: DueNode): boolean;
}

/** A new deadline wakes the rule, which then knows when to look; without news it looks this often. */
const everySeconds = 5;

/** Whose word moved the deadline is on the timeline; that it was moved is part of the verdict. */
function waitedFor(node: DueNode, now: Date): string {
  const given = node.deadline_at ? secondsBetween(node.status_since, node.deadline_at) : 0;
  const moved = given - (node.budget_seconds ?? given);
  const waited = `waited ${Math.round(secondsBetween(node.status_since, now))} s, budget from ${node.budget_source}`;
  return Math.abs(moved) < 0.5 ? waited : `${waited}, deadline moved by ${Math.round(moved)} s`;
}

const dataOf = (blame: Blame | undefined) =>
  blame ? { step: blame.step, code: blame.code, owner_layer: blame.owner_layer } : {};

/** What it is told, and who is to help. One that was seen to have ended does not beat any more, whatever was refused before. */
function judgement({ refusals }: SweepServices, rule: DeadlineRule, node: DueNode, now: Date, blame?: Blame) {
  const waited = waitedFor(node, now);
  if (rule.certain?.(node)) return { reason: rule.reason(waited, node), data: { certain: true } };
  // What was refused before it came to stand so says nothing of why it stands so still; it is told anew in each status.
  const unheardSince =
    node.last_seen_at && node.last_seen_at > node.status_since ? node.last_seen_at : node.status_since;
  const why = rule.refused ? refusals.why(node.node_instance_id, unheardSince, now) : null;
  return rule.refused && why !== null
    ? { reason: rule.refused(waited, refusedInWords(why)), data: ownerOfRefusal }
    : { reason: rule.reason(waited, node, blame), data: dataOf(blame) };
}

/** The deadline that a fact has set. */
function deadlineIn({ data }: Evidence): Date | undefined {
  const { deadline_at } = (data.set ?? {}) as { deadline_at?: unknown };
  return typeof deadline_at === 'string' ? moment(Date.parse(deadline_at)) : undefined;
}

export function deadlineRule(services: SweepServices, rule: DeadlineRule): Sweep {
  const question = (now: Date) => ({
    status: rule.from,
    now,
    for_the_better: !nodeRules[rule.name].negative,
    ...(rule.where && { where: rule.where }),
  });
  const announcing = [`node.${rule.from}`, 'node.deadline_moved'];
  return verdictSweep(services, {
    name: rule.name,
    every_seconds: everySeconds,
    woken_by: (kind) => kind === 'node.held_over',
    due_by: (fact) => (announcing.includes(fact.kind) ? deadlineIn(fact) : undefined),
    ...(rule.batch && { batch: rule.batch }),
    ...(rule.apply && { apply: rule.apply }),
    async find(tx, now, limit, except) {
      const due = await lockDueNodes(tx, question(now), limit, except);
      const blameOn = due.length > 0 ? await rule.blame?.(tx, due) : undefined;
      return due.map((node) => {
        const { budget_seconds, budget_source, stale_seconds, reported_status } = node;
        const { reason, data } = judgement(services, rule, node, now, blameOn?.(node));
        const moments = { deadline_at: node.deadline_at, last_seen_at: node.last_seen_at };
        return {
          node,
          to: typeof rule.to === 'function' ? rule.to(node) : rule.to,
          reason,
          due_at: node.deadline_at ?? now,
          data: { budget_seconds, budget_source, stale_seconds, reported_status, ...data },
          moments,
        };
      });
    },
    others: (tx, now, found) => countDueNodes(tx, question(now), found),
    next: (now) => nextDueAt(services.db, rule.from, now),
  });
}
