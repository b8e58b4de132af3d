/**
 * Replays the brake over recorded verdicts: which would be held, and which not. Counts the fleet at
 * each time from the recorded changes.
 */
import { secondsLater } from '../../base/clock.ts';
import { type BrakePolicy, decideBrake, type OpenHold } from '../brake/brake.ts';
import { type NodeRuleName, nodeRules, recentBesidesPhase } from '../model/rules.ts';
import type { NodeStatus } from '../model/states.ts';
import { type Difference, differenceOf } from './difference.ts';
import type { History, RecordedChange } from './history.ts';

type StatusCounts = Record<string, number>;

/** A verdict that a rule gave or held. */
interface Due {
  at: Date;
  node_id: string;
  node_instance_id: string;
  held: boolean;
  to: string;
  reason: string;
}

const negativeRules = (Object.keys(nodeRules) as NodeRuleName[]).filter((name) => nodeRules[name].en_masse !== null);

const byTime = (one: { at: Date }, other: { at: Date }) => one.at.getTime() - other.at.getTime();

/** The verdicts of a rule, once per node: one that was held and given later counts once. */
function dueOf(rule: NodeRuleName, { changes, held, brake }: History): Due[] {
  const heldAt = new Map<string, Date>();
  const kept = held.filter((each) => each.rule === rule).map((each): Due => ({ ...each, held: true }));
  const decided = changes.filter((each) => each.by === rule).map((each): Due => ({ ...each, held: false }));
  return [...kept, ...decided].sort(byTime).filter((due) => {
    const before = heldAt.get(due.node_instance_id);
    if (due.held) heldAt.set(due.node_instance_id, due.at);
    // After a hold, verdicts resume at a limited rate.
    return !before || due.at > secondsLater(before, 2 * brake.mass_failure_seconds);
  });
}

/** Counts the fleet at a time. Must be called in order of time. */
function fleetAt({ changes, final_counts }: History): (at: Date) => StatusCounts {
  const then: StatusCounts = { ...final_counts };
  const move = (from: string, to: string) => {
    then[from] = (then[from] ?? 0) - 1;
    then[to] = (then[to] ?? 0) + 1;
  };
  for (const { from, to } of changes) move(to, from);
  let next = 0;
  return (at) => {
    for (let change = changes[next]; change && change.at < at; change = changes[next]) {
      move(change.from, change.to);
      next++;
    }
    return then;
  };
}

const countOf = (counts: StatusCounts, phase: readonly NodeStatus[]): number =>
  phase.reduce((sum, status) => sum + Math.max(0, counts[status] ?? 0), 0);

type Returns = Map<string, number[]>;

/** When each instance returned from offline. */
function returnsOf(changes: readonly RecordedChange[]): Returns {
  const returns: Returns = new Map();
  for (const { from, node_instance_id, at } of changes) {
    if (from !== 'offline') continue;
    const own = returns.get(node_instance_id);
    if (own) own.push(at.getTime());
    else returns.set(node_instance_id, [at.getTime()]);
  }
  return returns;
}

const backAfter = (returns: Returns, { node_instance_id, at }: Due): number =>
  returns.get(node_instance_id)?.find((ms) => ms > at.getTime()) ?? Number.POSITIVE_INFINITY;

interface BrakeStep {
  holds: boolean;
  /** The hold or the pause starts here. */
  opens: boolean;
}

/**
 * Runs the brake over the verdicts of one rule. A hold ends after its time, or when all held
 * machines are back.
 */
function brakeRun({ brake }: History, rule: NodeRuleName, returns: Returns) {
  const { en_masse, phase } = nodeRules[rule];
  let recent: { at: Date; count: number }[] = [];
  let open: OpenHold | undefined;
  let allBackMs = Number.NEGATIVE_INFINITY;
  return (at: Date, dues: Due[], population: number, policy: BrakePolicy): BrakeStep => {
    const from = secondsLater(at, -brake.window_seconds);
    recent = recent.filter((each) => each.at > from);
    if (open && (at >= open.held_until || at.getTime() >= allBackMs)) open = undefined;
    const decided = recent.reduce((sum, { count }) => sum + count, 0);
    const share = { due: dues.length, recent: decided, population: population + recentBesidesPhase(phase, decided) };
    const decision = decideBrake(share, policy, brake, open, at);
    const holds = decision.allow === 'none';
    const opens = holds && decision.opens;
    if (opens) {
      open = { held_until: decision.held_until, resumed: false };
      allBackMs = Number.NEGATIVE_INFINITY;
    }
    if (holds) for (const due of dues) allBackMs = Math.max(allBackMs, backAfter(returns, due));
    // Rules that pause launches write their verdicts anyway.
    if (!holds || en_masse !== 'hold') recent.push({ at, count: dues.length });
    return { holds, opens };
  };
}

const policyAt = ({ generations }: History, at: Date): BrakePolicy | undefined =>
  (generations.findLast(({ created_at }) => created_at <= at) ?? generations[0])?.policy.brake;

function heldOr(due: Due, rule: string, holds: boolean, until: Date): Difference {
  const { at, to, reason } = due;
  if (!holds) {
    const goes = { verdict: to, at, reason: 'not too many at once' };
    return differenceOf(due, 'not_held', rule, { verdict: 'held', at, reason }, goes);
  }
  const waits = { verdict: 'held', at, reason: `too many at once; until ${until.toISOString()} at the latest` };
  return differenceOf(due, 'held', rule, { verdict: to, at, reason }, waits);
}

function pausedOr(due: Due, rule: string, pauses: boolean): Difference {
  const { at } = due;
  const go = { verdict: 'launches go on', at, reason: 'not too many at once' };
  const stop = { verdict: 'launches paused', at, reason: 'too many failed at once; this one was the last of them' };
  return pauses
    ? differenceOf(due, 'launches_paused', rule, go, stop)
    : differenceOf(due, 'launches_not_paused', rule, stop, go);
}

function* replayRule(
  history: History,
  rule: NodeRuleName,
  proposed: BrakePolicy,
  returns: Returns,
): Generator<Difference | undefined> {
  const dues = dueOf(rule, history);
  if (dues.length === 0) return;
  const isHolding = nodeRules[rule].en_masse === 'hold';
  const fleet = fleetAt(history);
  const before = brakeRun(history, rule, returns);
  const after = brakeRun(history, rule, returns);
  for (const together of Map.groupBy(dues, ({ at }) => at.getTime()).values()) {
    yield undefined;
    const last = together.at(-1);
    const inForce = last && policyAt(history, last.at);
    if (!last || !inForce) continue;
    const population = countOf(fleet(last.at), nodeRules[rule].phase);
    const then = before(last.at, together, population, inForce);
    const now = after(last.at, together, population, proposed);
    if (!isHolding) {
      if (then.opens !== now.opens && then.holds !== now.holds) yield pausedOr(last, rule, now.opens);
      continue;
    }
    const until = secondsLater(last.at, history.brake.mass_failure_seconds);
    for (const due of together)
      if (then.holds === due.held && now.holds !== due.held) yield heldOr(due, rule, now.holds, until);
  }
}

/**
 * Replays all rules that the brake applies to. Yields at each moment so that the caller can
 * interleave other work.
 */
export function* replayBrake(history: History, proposed: BrakePolicy): Generator<Difference | undefined> {
  const returns = returnsOf(history.changes);
  for (const rule of negativeRules) yield* replayRule(history, rule, proposed, returns);
}
