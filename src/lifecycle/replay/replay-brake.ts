/**
 * Replays the brake over recorded verdicts, to find which verdicts it would hold or let through.
 * The size of the fleet at each time is computed from the recorded changes.
 */
import { secondsLater } from '../../base/clock.ts';
import { type BrakePolicy, decideBrake, type OpenHold } from '../brake/brake.ts';
import { type NodeRuleName, nodeRules, recentBesidesPhase } from '../model/rules.ts';
import type { NodeStatus } from '../model/states.ts';
import { type Difference, differenceOf } from './difference.ts';
import type { History, RecordedChange } from './history.ts';

type StatusCounts = Record<string, number>;

/** A verdict that a rule gave or held. */
interface RecordedVerdict {
  at: Date;
  node_id: string;
  node_instance_id: string;
  held: boolean;
  to: string;
  reason: string;
}

const brakedRules = (Object.keys(nodeRules) as NodeRuleName[]).filter((name) => nodeRules[name].en_masse !== null);

const byTime = (one: { at: Date }, other: { at: Date }) => one.at.getTime() - other.at.getTime();

/** The verdicts of a rule. A verdict that was first held and later written counts once. */
function verdictsOf(rule: NodeRuleName, { changes, held, brake }: History): RecordedVerdict[] {
  const heldAt = new Map<string, Date>();
  const heldVerdicts = held
    .filter((each) => each.rule === rule)
    .map((each): RecordedVerdict => ({ ...each, held: true }));
  const writtenVerdicts = changes
    .filter((each) => each.by === rule)
    .map((each): RecordedVerdict => ({ ...each, held: false }));
  return [...heldVerdicts, ...writtenVerdicts].sort(byTime).filter((due) => {
    const lastHeldAt = heldAt.get(due.node_instance_id);
    if (due.held) heldAt.set(due.node_instance_id, due.at);
    // Verdicts resume at a limited rate after a hold, so a held verdict may be written much later.
    return !lastHeldAt || due.at > secondsLater(lastHeldAt, 2 * brake.mass_failure_seconds);
  });
}

/**
 * Returns a function that counts the nodes by status at a given time. Its calls must be in order of
 * time.
 */
function createFleetCounter({ changes, final_counts }: History): (at: Date) => StatusCounts {
  const counts: StatusCounts = { ...final_counts };
  const move = (from: string, to: string) => {
    counts[from] = (counts[from] ?? 0) - 1;
    counts[to] = (counts[to] ?? 0) + 1;
  };
  for (const { from, to } of changes) move(to, from);
  let next = 0;
  return (at) => {
    for (let change = changes[next]; change && change.at < at; change = changes[next]) {
      move(change.from, change.to);
      next++;
    }
    return counts;
  };
}

const countOf = (counts: StatusCounts, phase: readonly NodeStatus[]): number =>
  phase.reduce((sum, status) => sum + Math.max(0, counts[status] ?? 0), 0);

type Returns = Map<string, number[]>;

/** The times at which each instance left offline. */
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

const returnMsAfter = (returns: Returns, { node_instance_id, at }: RecordedVerdict): number =>
  returns.get(node_instance_id)?.find((ms) => ms > at.getTime()) ?? Number.POSITIVE_INFINITY;

interface BrakeStep {
  holds: boolean;
  /** The hold or the pause starts with these verdicts. */
  opens: boolean;
}

/**
 * Runs the brake over the verdicts of one rule. A hold ends after its time, or when all held
 * machines are back.
 */
function createBrakeRun({ brake }: History, rule: NodeRuleName, returns: Returns) {
  const { en_masse, phase } = nodeRules[rule];
  let recent: { at: Date; count: number }[] = [];
  let hold: OpenHold | undefined;
  let allReturnedMs = Number.NEGATIVE_INFINITY;
  return (at: Date, dueVerdicts: RecordedVerdict[], population: number, policy: BrakePolicy): BrakeStep => {
    const from = secondsLater(at, -brake.window_seconds);
    recent = recent.filter((each) => each.at > from);
    if (hold && (at >= hold.held_until || at.getTime() >= allReturnedMs)) hold = undefined;
    const recentCount = recent.reduce((sum, { count }) => sum + count, 0);
    const counts = {
      due: dueVerdicts.length,
      recent: recentCount,
      population: population + recentBesidesPhase(phase, recentCount),
    };
    const decision = decideBrake(counts, policy, brake, hold, at);
    const holds = decision.allow === 'none';
    const opens = holds && decision.opens;
    if (opens) {
      hold = { held_until: decision.held_until, resumed: false };
      allReturnedMs = Number.NEGATIVE_INFINITY;
    }
    if (holds) for (const due of dueVerdicts) allReturnedMs = Math.max(allReturnedMs, returnMsAfter(returns, due));
    // Rules that pause launches write their verdicts anyway.
    if (!holds || en_masse !== 'hold') recent.push({ at, count: dueVerdicts.length });
    return { holds, opens };
  };
}

const policyAt = ({ generations }: History, at: Date): BrakePolicy | undefined =>
  (generations.findLast(({ created_at }) => created_at <= at) ?? generations[0])?.policy.brake;

function holdDifference(due: RecordedVerdict, rule: string, holds: boolean, until: Date): Difference {
  const { at, to, reason } = due;
  if (!holds) {
    const written = { verdict: to, at, reason: 'not too many at once' };
    return differenceOf(due, 'not_held', rule, { verdict: 'held', at, reason }, written);
  }
  const heldVerdict = {
    verdict: 'held',
    at,
    reason: `too many verdicts at once; held until ${until.toISOString()} at the latest`,
  };
  return differenceOf(due, 'held', rule, { verdict: to, at, reason }, heldVerdict);
}

function pauseDifference(due: RecordedVerdict, rule: string, pauses: boolean): Difference {
  const { at } = due;
  const unpaused = { verdict: 'launches continue', at, reason: 'not too many at once' };
  const paused = { verdict: 'launches paused', at, reason: 'too many failed at once; this one was the last of them' };
  return pauses
    ? differenceOf(due, 'launches_paused', rule, unpaused, paused)
    : differenceOf(due, 'launches_not_paused', rule, paused, unpaused);
}

function* replayRule(
  history: History,
  rule: NodeRuleName,
  proposed: BrakePolicy,
  returns: Returns,
): Generator<Difference | undefined> {
  const dueVerdicts = verdictsOf(rule, history);
  if (dueVerdicts.length === 0) return;
  const isHolding = nodeRules[rule].en_masse === 'hold';
  const fleet = createFleetCounter(history);
  const brakeInForce = createBrakeRun(history, rule, returns);
  const brakeProposed = createBrakeRun(history, rule, returns);
  for (const simultaneous of Map.groupBy(dueVerdicts, ({ at }) => at.getTime()).values()) {
    yield undefined;
    const last = simultaneous.at(-1);
    const inForce = last && policyAt(history, last.at);
    if (!last || !inForce) continue;
    const population = countOf(fleet(last.at), nodeRules[rule].phase);
    const inForceStep = brakeInForce(last.at, simultaneous, population, inForce);
    const proposedStep = brakeProposed(last.at, simultaneous, population, proposed);
    if (!isHolding) {
      if (inForceStep.opens !== proposedStep.opens && inForceStep.holds !== proposedStep.holds)
        yield pauseDifference(last, rule, proposedStep.opens);
      continue;
    }
    const until = secondsLater(last.at, history.brake.mass_failure_seconds);
    for (const due of simultaneous)
      if (inForceStep.holds === due.held && proposedStep.holds !== due.held)
        yield holdDifference(due, rule, proposedStep.holds, until);
  }
}

/**
 * Replays all rules that the brake applies to. Also yields undefined between steps, so that the
 * caller can interleave other work.
 */
export function* replayBrake(history: History, proposed: BrakePolicy): Generator<Difference | undefined> {
  const returns = returnsOf(history.changes);
  for (const rule of brakedRules) yield* replayRule(history, rule, proposed, returns);
}
