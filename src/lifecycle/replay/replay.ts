/**
 * Replays the recorded history of a pool under a proposed policy, with the rules of the product.
 * The facts come from the record, so replaying the policy that was in force yields no differences.
 */
import type { BudgetSettings } from '../deadlines/budgets.ts';
import { heartbeatPolicy } from '../deadlines/heartbeat-policy.ts';
import { replayAbsence } from './absences.ts';
import { replayBoot } from './boots.ts';
import type { Difference, DifferenceKind, ReplayOutcome, UnknownKind } from './difference.ts';
import type { History, ReplayPolicy } from './history.ts';
import { replayBrake } from './replay-brake.ts';

export interface UnknownTotal {
  kind: UnknownKind;
  /** Null if the kind is not about single decisions. */
  count: number | null;
  /** A sample of the nodes concerned. */
  node_ids: string[];
}

export interface Replay {
  boots: number;
  absences: number;
  /** The number of boots, absences and held verdicts. */
  decisions: number;
  differencesByKind: Partial<Record<DifferenceKind, number>>;
  /** Newest first. */
  differences: Difference[];
  /** Questions that the record cannot answer. */
  unknowns: UnknownTotal[];
}

const maxNamed = 20;

/** These budgets are not replayed. */
const unreplayedBudgets = [
  'queue_seconds',
  'drain_seconds',
  'release_seconds',
] as const satisfies (keyof BudgetSettings)[];

/** Questions about the policy that no record can answer. */
function findUnanswerable(history: History, proposed: ReplayPolicy): UnknownKind[] {
  const kinds: UnknownKind[] = [];
  const currentPolicy = history.generations.at(-1)?.policy;
  const allowed = heartbeatPolicy(proposed.heartbeat).stale_after_seconds;
  if (history.generations.some(({ policy }) => allowed < heartbeatPolicy(policy.heartbeat).stale_after_seconds))
    kinds.push('short_silences');
  if (proposed.budgets.policy === 'learned' && history.boots.some((boot) => boot.budget_source !== 'learned'))
    kinds.push('learned');
  if (currentPolicy && unreplayedBudgets.some((name) => proposed.budgets[name] !== currentPolicy.budgets[name]))
    kinds.push('other_budgets');
  if (proposed.mode === 'observe') kinds.push('observed');
  if (history.truncated.boots) kinds.push('cut_boots');
  if (history.truncated.changes) kinds.push('cut_changes');
  return kinds;
}

/**
 * Replays one item per step. There may be a hundred thousand items, so a server interleaves the
 * steps with other work.
 */
export function* replaySteps(history: History, proposed: ReplayPolicy): Generator<ReplayOutcome> {
  const policies = new Map(history.generations.map(({ generation, policy }) => [generation, policy]));
  const latest = history.generations.at(-1)?.policy;
  const inForce = (generation: number) => policies.get(generation) ?? latest ?? proposed;
  for (const boot of history.boots) yield replayBoot(boot, inForce(boot.generation), proposed);
  for (const absence of history.absences) yield* replayAbsence(absence, inForce(absence.generation), proposed);
  for (const node_id of history.unenforced_silences) yield { unknown: { kind: 'told_silences', node_id } };
  for (const difference of replayBrake(history, proposed.brake)) yield difference && { difference };
}

/** Sums up all steps. */
export function replayTotal(history: History, proposed: ReplayPolicy, outcomes: readonly ReplayOutcome[]): Replay {
  const differences = outcomes.flatMap((each) => (each && 'difference' in each ? [each.difference] : []));
  const unknowns = outcomes.flatMap((each) => (each && 'unknown' in each ? [each.unknown] : []));
  const differencesByKind: Replay['differencesByKind'] = {};
  for (const { kind } of differences) differencesByKind[kind] = (differencesByKind[kind] ?? 0) + 1;
  return {
    boots: history.boots.length,
    absences: history.absences.length,
    decisions: history.boots.length + history.absences.length + history.held.length,
    differencesByKind,
    differences: differences.sort((one, other) => other.at.getTime() - one.at.getTime()),
    unknowns: [
      ...[...Map.groupBy(unknowns, ({ kind }) => kind)].map(([kind, all]) => ({
        kind,
        count: all.length,
        node_ids: [...new Set(all.flatMap(({ node_id }) => (node_id === undefined ? [] : [node_id])))].slice(
          0,
          maxNamed,
        ),
      })),
      ...findUnanswerable(history, proposed).map((kind) => ({ kind, count: null, node_ids: [] })),
    ],
  };
}
