/**
 * Recorded history of a pool against a proposed policy: what would have been decided otherwise, and what cannot be told. The judgements
 * are the product's own; what happened is the record's word, so the policy that was in force changes nothing. Pure.
 */
import { type BudgetSettings, heartbeatPolicy } from '../deadlines/budgets.ts';
import { replayAbsence } from './absences.ts';
import { replayBoot } from './boots.ts';
import { replayBrake } from './brake.ts';
import type { Difference, DifferenceKind, ReplayOutcome, UnknownKind } from './difference.ts';
import type { History, ReplayPolicy } from './history.ts';

export interface UnknownTotal {
  kind: UnknownKind;
  /** Null where it is not about single decisions. */
  count: number | null;
  /** Some of those that it is about. */
  node_ids: string[];
}

export interface Replay {
  boots: number;
  absences: number;
  /** Boots that ended, machines called offline, verdicts that were held back. */
  decisions: number;
  otherwise: Partial<Record<DifferenceKind, number>>;
  /** Newest first. */
  differences: Difference[];
  untold: UnknownTotal[];
}

const mostNamed = 20;

/** Not replayed, so a change of them says nothing here. */
const notReplayed = ['queue_seconds', 'drain_seconds', 'release_seconds'] as const satisfies (keyof BudgetSettings)[];

/** What a policy asks for that no record can answer, whatever happened. */
function unanswerable(history: History, proposed: ReplayPolicy): UnknownKind[] {
  const found: UnknownKind[] = [];
  const now = history.generations.at(-1)?.policy;
  const allowed = heartbeatPolicy(proposed.heartbeat).stale_after_seconds;
  if (history.generations.some(({ policy }) => allowed < heartbeatPolicy(policy.heartbeat).stale_after_seconds))
    found.push('short_silences');
  if (proposed.budgets.policy === 'learned' && history.boots.some((boot) => boot.budget_source !== 'learned'))
    found.push('learned');
  if (now && notReplayed.some((name) => proposed.budgets[name] !== now.budgets[name])) found.push('other_budgets');
  if (proposed.mode === 'observe') found.push('observed');
  if (history.cut.boots) found.push('cut_boots');
  if (history.cut.changes) found.push('cut_changes');
  return found;
}

/**
 * Each thing on record in its turn; there may be a hundred thousand of each, so whoever has others to serve takes them bit by bit.
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

/** What all steps come to. */
export function replayTotal(history: History, proposed: ReplayPolicy, found: readonly ReplayOutcome[]): Replay {
  const differences = found.flatMap((each) => (each && 'difference' in each ? [each.difference] : []));
  const untold = found.flatMap((each) => (each && 'unknown' in each ? [each.unknown] : []));
  const otherwise: Replay['otherwise'] = {};
  for (const { kind } of differences) otherwise[kind] = (otherwise[kind] ?? 0) + 1;
  return {
    boots: history.boots.length,
    absences: history.absences.length,
    decisions: history.boots.length + history.absences.length + history.held.length,
    otherwise,
    differences: differences.sort((one, other) => other.at.getTime() - one.at.getTime()),
    untold: [
      ...[...Map.groupBy(untold, ({ kind }) => kind)].map(([kind, all]) => ({
        kind,
        count: all.length,
        node_ids: [...new Set(all.flatMap(({ node_id }) => (node_id === undefined ? [] : [node_id])))].slice(
          0,
          mostNamed,
        ),
      })),
      ...unanswerable(history, proposed).map((kind) => ({ kind, count: null, node_ids: [] })),
    ],
  };
}
