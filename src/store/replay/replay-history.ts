/**
 * Builds the recorded history of a pool for a replay: boots with their events, and absences with
 * their ends.
 */
import { type Clock, moment, pause, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type {
  DeadlineEvent,
  History,
  RecordedAbsence,
  RecordedBoot,
  ReplayPolicy,
} from '../../lifecycle/replay/history.ts';
import type { Database, Queryable } from '../pg/database.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';
import {
  type BootRow,
  countByPresentStatus,
  type FactRow,
  type ReplayRange,
  readAdvances,
  readBoots,
  readFacts,
} from './replay-facts.ts';

/** Returns the policy that the rules of this server apply to a pool document. */
export function toReplayPolicy(document: PoolDocument, environment: TransitionEnvironment): ReplayPolicy {
  return {
    mode: document.mode ?? 'enforce',
    budgets: document.budgets ?? {},
    runtime_class: document.runtime_class ? environment.runtime_classes[document.runtime_class] : undefined,
    server: environment.budgets,
    heartbeat: document.heartbeat ?? {},
    brake: { ...environment.brake_policy, ...document.brake },
    external: document.driver === 'external',
  };
}

const readGenerations = (db: Queryable, pool: string) =>
  db.query<{ generation: number; document: PoolDocument; created_at: Date }>(
    'select generation, document, created_at from pool_generations where pool = $1 order by generation',
    [pool],
  );

const deadlineRules: Record<BootRow['phase'], string> = { provision: 'provision-deadline', start: 'start-deadline' };
const isObserveOnly = ({ kind }: Pick<FactRow, 'kind'>) => kind === 'node.would_have';
const isChange = ({ kind }: Pick<FactRow, 'kind'>) =>
  kind !== 'node.would_have' && kind !== 'node.deadline_moved' && kind !== 'node.held';

const unknownReason = 'the node did not arrive in time';

/** Finds the last deadline verdict on a boot, enforced or only observed. */
const findVerdict = (boot: BootRow, ended_at: Date, instanceFacts: readonly FactRow[]): FactRow | undefined =>
  instanceFacts.findLast(
    (fact) => fact.by === deadlineRules[boot.phase] && fact.at <= ended_at && (isChange(fact) || isObserveOnly(fact)),
  );

function toGivenUp(boot: BootRow, ended_at: Date, verdict: FactRow | undefined): RecordedBoot['given_up'] {
  if (verdict) {
    const { at, reason, due_at, last_seen_at, stale_seconds } = verdict;
    return { at, reason: reason ?? unknownReason, deadline_at: due_at, last_seen_at, stale_seconds };
  }
  // The verdict is outside the range or was dropped, but the boot's outcome shows that there was
  // one.
  if (boot.outcome !== 'late' && boot.outcome !== 'timed_out') return null;
  const at = secondsLater(ended_at, -(boot.lateness_seconds ?? 0));
  return { at, reason: unknownReason, deadline_at: null, last_seen_at: null, stale_seconds: null };
}

/**
 * Deadline moves by these layers apply under any policy. Moves by the store are left out for
 * provisioning, because waits for the provider and outages of the store already moved `started_at`.
 */
const movingLayers: Record<BootRow['phase'], readonly string[]> = {
  provision: ['operator'],
  start: ['operator', 'store'],
};

function listEvents(
  boot: BootRow,
  until: Date,
  instanceFacts: readonly FactRow[],
  advances: readonly number[],
): DeadlineEvent[] {
  const isWithin = (at: Date) => at > boot.started_at && at <= until;
  const moves = instanceFacts.flatMap(({ kind, layer, at, deadline_at, before }): DeadlineEvent[] => {
    const isMove = kind === 'node.deadline_moved' && movingLayers[boot.phase].includes(layer) && isWithin(at);
    if (!isMove || !deadline_at || !before) return [];
    return [{ at, what: 'moved', seconds: secondsBetween(before, deadline_at), by_person: layer === 'operator' }];
  });
  const signs = advances.map((ms): DeadlineEvent => ({ at: moment(ms), what: 'advance' }));
  return [...moves, ...signs.filter(({ at }) => isWithin(at))].sort(
    (one, other) => one.at.getTime() - other.at.getTime(),
  );
}

interface FactIndexes {
  byInstance: Map<string | null, FactRow[]>;
  byNode: Map<string, FactRow[]>;
  advances: Map<string, number[]>;
  until: Date;
}

function toRecordedBoot(boot: BootRow, { byInstance, byNode, advances, until }: FactIndexes): RecordedBoot {
  const { seconds, lateness_seconds: _, pool_generation: generation, ...rest } = boot;
  const instanceFacts = byInstance.get(boot.node_instance_id) ?? [];
  const ended_at = secondsLater(boot.started_at, seconds);
  const verdict = findVerdict(boot, ended_at, instanceFacts);
  const given_up = toGivenUp(boot, ended_at, verdict);
  const departure =
    given_up &&
    byNode
      .get(boot.node_id)
      ?.find((fact) => isChange(fact) && fact.at >= given_up.at && fact.from === 'failed' && fact.to !== 'starting');
  // An enforced verdict sets the end of the rescue window as deadline. An observed one has none.
  const rescuableUntil = verdict && isChange(verdict) ? verdict.deadline_at : null;
  const watchEnds = [departure?.at, rescuableUntil, until].flatMap((each) => (each ? [each.getTime()] : []));
  return {
    ...rest,
    generation,
    ended_at,
    given_up,
    events: listEvents(boot, given_up?.at ?? ended_at, instanceFacts, advances.get(boot.node_instance_id) ?? []),
    ready_by_rule:
      boot.phase === 'start' && instanceFacts.some(({ kind, by }) => kind === 'node.ready' && by === 'stuck-starting'),
    watched_until: moment(Math.min(...watchEnds)),
  };
}

/** Sums the seconds by which the deadline was moved by the facts in this range of indexes. */
function sumMoves(facts: readonly FactRow[], from: number, to: number): number {
  let sum = 0;
  for (let place = from; place < to; place++) {
    const { kind, layer, before, deadline_at } = facts[place] ?? {};
    if (kind === 'node.deadline_moved' && movingLayers.start.includes(layer ?? '') && before && deadline_at)
      sum += secondsBetween(before, deadline_at);
  }
  return sum;
}

/**
 * Returns the index of the next change, or the length if there is none. Loops instead of copying,
 * because a machine may flap 100,000 times.
 */
function findNextChange(facts: readonly FactRow[], from: number): number {
  for (let place = from; place < facts.length; place++) if (isChange(facts[place] ?? { kind: '' })) return place;
  return facts.length;
}

/**
 * Builds the absences of a node. An absence lasts from an offline verdict to the next change, which
 * shows whether the node returned. If that change failed the node, the one after it shows whether
 * the node was rescued.
 */
function listAbsences(facts: readonly FactRow[], findGeneration: (fact: FactRow) => number): RecordedAbsence[] {
  return facts.flatMap((fact, place): RecordedAbsence[] => {
    const { at, by, reason, node_id, node_instance_id, stale_seconds, budget_seconds } = fact;
    if (fact.kind !== 'node.offline' || !node_instance_id || by === null) return [];
    const endPlace = findNextChange(facts, place + 1);
    const end = facts[endPlace];
    const changeAfterEnd = facts[findNextChange(facts, endPlace + 1)];
    const isBack = end?.by === 'heartbeat-returned';
    const isGivenUp = end?.by === 'offline-deadline';
    return [
      {
        node_id,
        node_instance_id,
        generation: findGeneration(fact),
        at,
        by,
        reason: reason ?? '',
        stale_seconds,
        budget_seconds,
        moved_seconds: sumMoves(facts, place + 1, endPlace),
        ended: end?.certain === true,
        returned_at: isBack ? end.at : null,
        given_up: isGivenUp ? { at: end.at, reason: end.reason ?? '' } : null,
        rescued_at: isGivenUp && changeAfterEnd?.by === 'late-registration' ? changeAfterEnd.at : null,
        interrupted_at: end && !isBack && !isGivenUp ? end.at : null,
      },
    ];
  });
}

/** Reads in one snapshot, so that counts and changes agree. */
const readRows = (db: Database, range: ReplayRange) =>
  db.transaction(async (tx) => {
    await tx.query('set transaction isolation level repeatable read, read only');
    const boots = await readBoots(tx, range);
    return {
      boots,
      ...(await readFacts(tx, range)),
      advances: await readAdvances(tx, [...new Set(boots.map(({ node_instance_id }) => node_instance_id))]),
      final_counts: await countByPresentStatus(tx, range.pool),
      generations: await readGenerations(tx, range.pool),
    };
  });

/** Pauses after this many items, so that other requests run: 100,000 items take a while. */
const itemsPerPause = 1000;

async function mapWithPauses<T, R>(items: readonly T[], convert: (item: T) => R, clock: Clock): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) {
    results.push(convert(item));
    if (results.length % itemsPerPause === 0) await pause(clock, 0);
  }
  return results;
}

interface ReplayServices {
  db: Database;
  clock: Clock;
  environment: TransitionEnvironment;
}

export async function readHistory({ db, clock, environment }: ReplayServices, range: ReplayRange): Promise<History> {
  const { pool, since, until, max_rows } = range;
  const rows = await readRows(db, range);
  const { facts, more, advances, final_counts } = rows;
  const boots = rows.boots.slice(0, max_rows);
  const byInstance = Map.groupBy(facts, ({ node_instance_id }) => node_instance_id);
  const byNode = Map.groupBy(facts, ({ node_id }) => node_id);
  const bootGenerations = new Map(boots.map((boot) => [boot.node_instance_id, boot.pool_generation]));
  const findGeneration = ({ node_instance_id, pool_generation }: FactRow) =>
    bootGenerations.get(node_instance_id ?? '') ?? pool_generation;
  const indexes = { byInstance, byNode, advances, until };
  const absences = await mapWithPauses(
    [...byNode.values()],
    (nodeFacts) => listAbsences(nodeFacts, findGeneration),
    clock,
  );
  return {
    pool,
    since,
    until,
    generations: rows.generations.map(({ document, ...row }) => ({
      ...row,
      policy: toReplayPolicy(document, environment),
    })),
    boots: await mapWithPauses(boots, (boot) => toRecordedBoot(boot, indexes), clock),
    absences: absences.flat(),
    changes: facts
      .filter(isChange)
      .flatMap(({ at, node_id, node_instance_id, from, to, by, reason }) =>
        from && to && by
          ? [{ at, node_id, node_instance_id: node_instance_id ?? '', from, to, by, reason: reason ?? '' }]
          : [],
      ),
    held: facts.flatMap(({ at, node_id, node_instance_id, held_rule, to, reason }) =>
      held_rule && to
        ? [{ at, node_id, node_instance_id: node_instance_id ?? '', rule: held_rule, to, reason: reason ?? '' }]
        : [],
    ),
    unenforced_silences: facts.flatMap((fact) => (isObserveOnly(fact) && fact.by === 'liveness' ? [fact.node_id] : [])),
    final_counts,
    brake: environment.brake,
    truncated: { boots: rows.boots.length > max_rows, changes: more },
  };
}
