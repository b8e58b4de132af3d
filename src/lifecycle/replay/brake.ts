/**
 * The brake over recorded verdicts: who would have been held back, and who not. The fleet is counted as it stood at each moment, from
 * the changes on record; what was in truth held or not is the record's word. Pure.
 */
import { secondsLater } from '../../base/clock.ts';
import { type BrakePolicy, leaveOf, type OpenHold } from '../brake.ts';
import { leftPhase, type NodeRuleName, nodeRules } from '../rules.ts';
import type { NodeStatus } from '../states.ts';
import type { Decision, Difference, DifferenceKind } from './difference.ts';
import type { History, RecordedChange } from './history.ts';

type Standing = Record<string, number>;

/** Something the rule decided or held at a moment. */
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

/** What the rule meant, each node once: held first and decided later is one. */
function dueOf(rule: NodeRuleName, { changes, held, brake }: History): Due[] {
  const heldAt = new Map<string, Date>();
  const kept = held.filter((each) => each.rule === rule).map((each): Due => ({ ...each, held: true }));
  const decided = changes.filter((each) => each.by === rule).map((each): Due => ({ ...each, held: false }));
  return [...kept, ...decided].sort(byTime).filter((due) => {
    const before = heldAt.get(due.node_instance_id);
    if (due.held) heldAt.set(due.node_instance_id, due.at);
    // A hold is over after its time, and then goes on at a pace.
    return !before || due.at > secondsLater(before, 2 * brake.mass_failure_seconds);
  });
}

/** Counts of the fleet at moments that are asked for in the order of time. */
function fleetThen({ changes, standing }: History): (at: Date) => Standing {
  const then: Standing = { ...standing };
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

const countOf = (standing: Standing, phase: readonly NodeStatus[]): number =>
  phase.reduce((sum, status) => sum + Math.max(0, standing[status] ?? 0), 0);

/** When each was back after it had been called offline. */
function returnsOf(changes: readonly RecordedChange[]): Map<string, Date[]> {
  const back = changes.filter(({ from }) => from === 'offline');
  return new Map(
    [...Map.groupBy(back, (each) => each.node_instance_id)].map(([id, all]) => [id, all.map(({ at }) => at)]),
  );
}

interface Said {
  holds: boolean;
  /** The hold, or the pause, begins here. */
  opens: boolean;
}

/** One run of the brake over the moments of a rule. A hold ends with its time, or when all whom it held are back. */
function brakeRun({ brake, changes }: History, rule: NodeRuleName) {
  const { en_masse, phase } = nodeRules[rule];
  const returns = returnsOf(changes);
  let recent: { at: Date; count: number }[] = [];
  let open: OpenHold | undefined;
  let members: Due[] = [];
  const isAway = ({ node_instance_id, at }: Due, now: Date) =>
    !returns.get(node_instance_id)?.some((back) => back > at && back <= now);
  return (at: Date, dues: Due[], standing: number, policy: BrakePolicy): Said => {
    const from = secondsLater(at, -brake.window_seconds);
    recent = recent.filter((each) => each.at > from);
    members = members.filter((each) => isAway(each, at));
    if (open && (at >= open.held_until || members.length === 0)) open = undefined;
    const decided = recent.reduce((sum, { count }) => sum + count, 0);
    const share = { due: dues.length, recent: decided, population: standing + leftPhase(phase, decided) };
    const leave = leaveOf(share, policy, brake, open, at);
    const holds = leave.leave === 'none';
    const opens = holds && leave.opens;
    if (opens) open = { held_until: leave.held_until, resumed: false };
    if (holds) members.push(...dues);
    // Those that only pause launches are written all the same.
    if (!holds || en_masse !== 'hold') recent.push({ at, count: dues.length });
    return { holds, opens };
  };
}

const policyAt = ({ generations }: History, at: Date): BrakePolicy | undefined =>
  (generations.findLast(({ created_at }) => created_at <= at) ?? generations[0])?.policy.brake;

const decided = ({ to, at, reason }: Due): Decision => ({ verdict: to, at, reason });

function heldOr(due: Due, rule: string, holds: boolean, until: Date): Difference {
  const { at, node_id, node_instance_id } = due;
  const kind: DifferenceKind = holds ? 'held' : 'not_held';
  const heldBack: Decision = {
    verdict: 'held',
    at,
    reason: holds ? `too many at once; until ${until.toISOString()} at the latest` : due.reason,
  };
  const goes: Decision = holds ? decided(due) : { verdict: due.to, at, reason: 'not too many at once' };
  const [was, would_be] = holds ? [goes, heldBack] : [heldBack, goes];
  return { kind, at, node_id, node_instance_id, rule, was, would_be, sure: true };
}

function pausedOr(due: Due, rule: string, pauses: boolean): Difference {
  const { at, node_id, node_instance_id } = due;
  const kind: DifferenceKind = pauses ? 'launches_paused' : 'launches_not_paused';
  const go: Decision = { verdict: 'launches go on', at, reason: 'not too many at once' };
  const stop: Decision = {
    verdict: 'launches paused',
    at,
    reason: 'too many failed at once; this one was the last of them',
  };
  const [was, would_be] = pauses ? [go, stop] : [stop, go];
  return { kind, at, node_id, node_instance_id, rule, was, would_be, sure: true };
}

function replayRule(history: History, rule: NodeRuleName, proposed: BrakePolicy): Difference[] {
  const isHolding = nodeRules[rule].en_masse === 'hold';
  const fleet = fleetThen(history);
  const before = brakeRun(history, rule);
  const after = brakeRun(history, rule);
  const found: Difference[] = [];
  const moments = Map.groupBy(dueOf(rule, history), ({ at }) => at.getTime());
  for (const dues of moments.values()) {
    const [first] = dues;
    const at = first?.at;
    const inForce = at && policyAt(history, at);
    if (!first || !at || !inForce) continue;
    const standing = countOf(fleet(at), nodeRules[rule].phase);
    const then = before(at, dues, standing, inForce);
    const now = after(at, dues, standing, proposed);
    if (!isHolding) {
      if (then.opens !== now.opens && then.holds !== now.holds)
        found.push(pausedOr(dues.at(-1) ?? first, rule, now.opens));
      continue;
    }
    const until = secondsLater(at, history.brake.mass_failure_seconds);
    for (const due of dues)
      if (then.holds === due.held && now.holds !== due.held) found.push(heldOr(due, rule, now.holds, until));
  }
  return found;
}

/** Rules that too many verdicts at once hold back or pause launches for. */
export const replayBrake = (history: History, proposed: BrakePolicy): Difference[] =>
  negativeRules.flatMap((rule) => replayRule(history, rule, proposed));
