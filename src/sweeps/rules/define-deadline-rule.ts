/**
 * Turns the declaration of a deadline rule into a sweep. The comparison with the deadline is
 * `isDue` in store/supervision/past-deadline.ts.
 */
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
  readNextDueAt,
} from '../../store/supervision/past-deadline.ts';
import { describeRefusal, ownerOfRefusal } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';
import { type VerdictRule, verdictSweep } from '../runner/verdict-sweep.ts';

export interface DeadlineRule extends Pick<VerdictRule, 'apply' | 'batch'> {
  name: NodeRuleName;
  from: NodeStatus;
  to: NodeStatus | ((node: DueNode) => NodeStatus);
  /** Restricts the rule to due nodes that meet every condition of at least one group. */
  where?: readonly (readonly DueCondition[])[];
  /** Renders the reason. `waited` says how long the node waited and where its budget came from. */
  reason(waited: string, node: DueNode, blame?: Blame): string;
  /**
   * Finds the unfinished step and its owner, for rules that need more than the node's row. Called
   * once per batch, so that one query can read the steps of all nodes.
   */
  blame?(tx: Transaction, due: readonly DueNode[]): Promise<(node: DueNode) => Blame | undefined>;
  /** Renders the reason for a machine whose heartbeats arrive but are refused. */
  refusedReason?(waited: string, refusal: string): string;
  /** Whether the machine is known to have ended, so that it cannot be rescued. */
  hasEnded?(node: DueNode): boolean;
}

/** The longest pause between two runs. Evidence of a new deadline schedules an earlier run. */
const everySeconds = 5;

/** Says by how much the deadline was moved; the timeline shows who moved it. */
function describeWait(node: DueNode, now: Date): string {
  const grantedSeconds = node.deadline_at ? secondsBetween(node.status_since, node.deadline_at) : 0;
  const movedSeconds = grantedSeconds - (node.budget_seconds ?? grantedSeconds);
  const waited = `waited ${Math.round(secondsBetween(node.status_since, now))} s, budget from ${node.budget_source}`;
  return Math.abs(movedSeconds) < 0.5 ? waited : `${waited}, deadline moved by ${Math.round(movedSeconds)} s`;
}

/** Without an owner, the verdict gets the default owner of the rule. */
export const dataOf = (blame: Blame | null | undefined) =>
  blame
    ? { step: blame.step, code: blame.code, ...(blame.owner_layer !== null && { owner_layer: blame.owner_layer }) }
    : {};

/**
 * Returns the reason and the data of a verdict. An ended machine is checked first, because refused
 * heartbeats do not explain its silence.
 */
function explainVerdict({ refusals }: SweepServices, rule: DeadlineRule, node: DueNode, now: Date, blame?: Blame) {
  const waited = describeWait(node, now);
  if (rule.hasEnded?.(node)) return { reason: rule.reason(waited, node), data: { certain: true } };
  // Refusals from before this status say nothing about why the node is still in it.
  const silentSince =
    node.last_seen_at && node.last_seen_at > node.status_since ? node.last_seen_at : node.status_since;
  const refusal = rule.refusedReason ? refusals.findReason(node.node_instance_id, silentSince, now) : null;
  return rule.refusedReason && refusal !== null
    ? { reason: rule.refusedReason(waited, describeRefusal(refusal)), data: ownerOfRefusal }
    : { reason: rule.reason(waited, node, blame), data: dataOf(blame) };
}

/** Returns the deadline that a piece of evidence has set. */
function readDeadline({ data }: Evidence): Date | undefined {
  const { deadline_at } = (data.set ?? {}) as { deadline_at?: unknown };
  return typeof deadline_at === 'string' ? moment(Date.parse(deadline_at)) : undefined;
}

export function defineDeadlineRule(services: SweepServices, rule: DeadlineRule): Sweep {
  const dueQuery = (now: Date) => ({
    status: rule.from,
    now,
    ignores_hold: !nodeRules[rule.name].negative,
    ...(rule.where && { where: rule.where }),
  });
  const deadlineKinds = [`node.${rule.from}`, 'node.deadline_moved'];
  return verdictSweep(services, {
    name: rule.name,
    every_seconds: everySeconds,
    isWokenBy: (kind) => kind === 'node.held_over',
    dueTimeFrom: (fact) => (deadlineKinds.includes(fact.kind) ? readDeadline(fact) : undefined),
    ...(rule.batch && { batch: rule.batch }),
    ...(rule.apply && { apply: rule.apply }),
    async find(tx, now, limit, except) {
      const due = await lockDueNodes(tx, dueQuery(now), limit, except);
      const blameOn = due.length > 0 ? await rule.blame?.(tx, due) : undefined;
      return due.map((node) => {
        const { budget_seconds, budget_source, stale_seconds, reported_status } = node;
        const { reason, data } = explainVerdict(services, rule, node, now, blameOn?.(node));
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
    countOthers: (tx, now, found) => countDueNodes(tx, dueQuery(now), found),
    findNextDue: (now) => readNextDueAt(services.db, rule.from, now),
  });
}
