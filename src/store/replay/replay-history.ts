/** The recorded history of a pool, put together for a replay: each boot with what moved it, each absence with its end. */
import { type Clock, moment, pause, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { defaultBrakePolicy } from '../../lifecycle/brake/brake.ts';
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
  type Asked,
  type BootRow,
  countStanding,
  type FactRow,
  readAdvances,
  readBoots,
  readFacts,
} from './replay-facts.ts';

/** What the rules make of a document on this server. */
export function replayPolicyOf(document: PoolDocument, environment: TransitionEnvironment): ReplayPolicy {
  return {
    mode: document.mode ?? 'enforce',
    budgets: document.budgets ?? {},
    runtime_class: document.runtime_class ? environment.runtime_classes[document.runtime_class] : undefined,
    server: environment.budgets,
    heartbeat: document.heartbeat ?? {},
    brake: { ...defaultBrakePolicy, ...document.brake },
    external: document.driver === 'external',
  };
}

const readGenerations = (db: Queryable, pool: string) =>
  db.query<{ generation: number; document: PoolDocument; created_at: Date }>(
    'select generation, document, created_at from pool_generations where pool = $1 order by generation',
    [pool],
  );

const deadlineRules: Record<BootRow['phase'], string> = { provision: 'provision-deadline', start: 'start-deadline' };
const isTold = ({ kind }: Pick<FactRow, 'kind'>) => kind === 'node.would_have';
const isChange = ({ kind }: Pick<FactRow, 'kind'>) =>
  kind !== 'node.would_have' && kind !== 'node.deadline_moved' && kind !== 'node.held';

const unsaid = 'it did not arrive in time';

const verdictOn = (boot: BootRow, ended_at: Date, own: readonly FactRow[]): FactRow | undefined =>
  own.findLast(
    (fact) => fact.by === deadlineRules[boot.phase] && fact.at <= ended_at && (isChange(fact) || isTold(fact)),
  );

function givenUpBy(boot: BootRow, ended_at: Date, verdict: FactRow | undefined): RecordedBoot['given_up'] {
  if (verdict) {
    const { at, reason, due_at, last_seen_at, stale_seconds } = verdict;
    return { at, reason: reason ?? unsaid, deadline_at: due_at, last_seen_at, stale_seconds };
  }
  // The verdict itself is older than what was asked for, or was left out; the boot remembers that there was one.
  if (boot.outcome !== 'late' && boot.outcome !== 'timed_out') return null;
  const at = secondsLater(ended_at, -(boot.lateness_seconds ?? 0));
  return { at, reason: unsaid, deadline_at: null, last_seen_at: null, stale_seconds: null };
}

/** Whose word moves a deadline under any policy. What the provider granted, and gaps of ours while it booted, moved its clock as well. */
const movers: Record<BootRow['phase'], readonly string[]> = { provision: ['operator'], start: ['operator', 'store'] };

function eventsOf(boot: BootRow, until: Date, own: readonly FactRow[], advances: readonly number[]): DeadlineEvent[] {
  const isWithin = (at: Date) => at > boot.started_at && at <= until;
  const moves = own.flatMap(({ kind, layer, at, deadline_at, before }): DeadlineEvent[] => {
    const isMove = kind === 'node.deadline_moved' && movers[boot.phase].includes(layer) && isWithin(at);
    if (!isMove || !deadline_at || !before) return [];
    return [{ at, what: 'moved', seconds: secondsBetween(before, deadline_at), by_person: layer === 'operator' }];
  });
  const signs = advances.map((ms): DeadlineEvent => ({ at: moment(ms), what: 'advance' }));
  return [...moves, ...signs.filter(({ at }) => isWithin(at))].sort(
    (one, other) => one.at.getTime() - other.at.getTime(),
  );
}

interface Indexed {
  byInstance: Map<string | null, FactRow[]>;
  byNode: Map<string, FactRow[]>;
  advances: Map<string, number[]>;
  until: Date;
}

function bootOf(boot: BootRow, { byInstance, byNode, advances, until }: Indexed): RecordedBoot {
  const { seconds, lateness_seconds: _, pool_generation: generation, ...rest } = boot;
  const own = byInstance.get(boot.node_instance_id) ?? [];
  const ended_at = secondsLater(boot.started_at, seconds);
  const verdict = verdictOn(boot, ended_at, own);
  const given_up = givenUpBy(boot, ended_at, verdict);
  const left =
    given_up &&
    byNode
      .get(boot.node_id)
      ?.find((fact) => isChange(fact) && fact.at >= given_up.at && fact.from === 'failed' && fact.to !== 'starting');
  // After its rescue window it is not believed any more, wherever its machine is. One that was only told of has no such window.
  const believedUntil = verdict && isChange(verdict) ? verdict.deadline_at : null;
  const watched = [left?.at, believedUntil, until].flatMap((each) => (each ? [each.getTime()] : []));
  return {
    ...rest,
    generation,
    ended_at,
    given_up,
    events: eventsOf(boot, given_up?.at ?? ended_at, own, advances.get(boot.node_instance_id) ?? []),
    ready_by_rule:
      boot.phase === 'start' && own.some(({ kind, by }) => kind === 'node.ready' && by === 'stuck-starting'),
    watched_until: moment(Math.min(...watched)),
  };
}

/** By how much the deadline was moved between these places. */
function movedBy(facts: readonly FactRow[], from: number, to: number): number {
  let sum = 0;
  for (let place = from; place < to; place++) {
    const { kind, layer, before, deadline_at } = facts[place] ?? {};
    if (kind === 'node.deadline_moved' && movers.start.includes(layer ?? '') && before && deadline_at)
      sum += secondsBetween(before, deadline_at);
  }
  return sum;
}

/** Where the next change stands; past the end where none does. A machine may have flapped a hundred thousand times. */
function nextChange(facts: readonly FactRow[], from: number): number {
  for (let place = from; place < facts.length; place++) if (isChange(facts[place] ?? { kind: '' })) return place;
  return facts.length;
}

/** From each verdict that called it offline to the next change of its status, and one further where that gave it up. */
function absencesOf(facts: readonly FactRow[], generationOf: (fact: FactRow) => number): RecordedAbsence[] {
  return facts.flatMap((fact, place): RecordedAbsence[] => {
    const { at, by, reason, node_id, node_instance_id, stale_seconds, budget_seconds } = fact;
    if (fact.kind !== 'node.offline' || !node_instance_id || by === null) return [];
    const endPlace = nextChange(facts, place + 1);
    const end = facts[endPlace];
    const after = facts[nextChange(facts, endPlace + 1)];
    const isBack = end?.by === 'heartbeat-returned';
    const isGivenUp = end?.by === 'offline-deadline';
    return [
      {
        node_id,
        node_instance_id,
        generation: generationOf(fact),
        at,
        by,
        reason: reason ?? '',
        stale_seconds,
        budget_seconds,
        moved_seconds: movedBy(facts, place + 1, endPlace),
        ended: end?.certain === true,
        back_at: isBack ? end.at : null,
        given_up: isGivenUp ? { at: end.at, reason: end.reason ?? '' } : null,
        rescued_at: isGivenUp && after?.by === 'late-registration' ? after.at : null,
        over_at: end && !isBack && !isGivenUp ? end.at : null,
      },
    ];
  });
}

/** Read as it stood at one moment, so that counts and changes agree. */
const readRows = (db: Database, asked: Asked) =>
  db.transaction(async (tx) => {
    await tx.query('set transaction isolation level repeatable read, read only');
    const boots = await readBoots(tx, asked);
    return {
      boots,
      ...(await readFacts(tx, asked)),
      advances: await readAdvances(tx, [...new Set(boots.map(({ node_instance_id }) => node_instance_id))]),
      standing: await countStanding(tx, asked.pool),
      generations: await readGenerations(tx, asked.pool),
    };
  });

/** A hundred thousand of them take their time; after so many whoever else is served has a turn. */
const bootsAtOnce = 1000;

async function inTurns<T, R>(all: readonly T[], each: (one: T) => R, clock: Clock): Promise<R[]> {
  const made: R[] = [];
  for (const one of all) {
    made.push(each(one));
    if (made.length % bootsAtOnce === 0) await pause(clock, 0);
  }
  return made;
}

interface Reading {
  db: Database;
  clock: Clock;
  environment: TransitionEnvironment;
}

export async function readHistory({ db, clock, environment }: Reading, asked: Asked): Promise<History> {
  const { pool, since, until, most } = asked;
  const rows = await readRows(db, asked);
  const { facts, more, advances, standing } = rows;
  const boots = rows.boots.slice(0, most);
  const byInstance = Map.groupBy(facts, ({ node_instance_id }) => node_instance_id);
  const byNode = Map.groupBy(facts, ({ node_id }) => node_id);
  const madeFrom = new Map(boots.map((boot) => [boot.node_instance_id, boot.pool_generation]));
  const generationOf = ({ node_instance_id, pool_generation }: FactRow) =>
    madeFrom.get(node_instance_id ?? '') ?? pool_generation;
  const indexed = { byInstance, byNode, advances, until };
  const absences = await inTurns([...byNode.values()], (own) => absencesOf(own, generationOf), clock);
  return {
    pool,
    since,
    until,
    generations: rows.generations.map(({ document, ...row }) => ({
      ...row,
      policy: replayPolicyOf(document, environment),
    })),
    boots: await inTurns(boots, (boot) => bootOf(boot, indexed), clock),
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
    unenforced_silences: facts.flatMap((fact) => (isTold(fact) && fact.by === 'liveness' ? [fact.node_id] : [])),
    standing,
    brake: environment.brake,
    cut: { boots: rows.boots.length > most, changes: more },
  };
}
