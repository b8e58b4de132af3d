/**
 * Applies maintenance windows and the mass-failure brake to the verdicts of a rule. Some verdicts
 * may be written now. The others are held until a time, with a reason.
 */
import { type Clock, secondsLater } from '../../base/clock.ts';
import { type NodeId, newHoldId } from '../../base/ids.ts';
import type { Held } from '../../contract/node.ts';
import { type BrakeDecision, type BrakePolicy, type PhaseCounts, resumeTime } from '../../lifecycle/brake/brake.ts';
import {
  type NodeRule,
  type NodeRuleName,
  nodeRules,
  pausingRules,
  recentBesidesPhase,
} from '../../lifecycle/model/rules.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Transaction } from '../../store/pg/database.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import { coversNode, listActiveWindows, type MaintenanceRow, readNodeLabels } from '../../store/rows/maintenance.ts';
import {
  countPopulation,
  countPopulationsUpTo,
  countRecentVerdicts,
  findRulesWithRecentVerdicts,
  type HoldRow,
  openHold,
  readBrakeState,
  type Scope,
} from '../../store/supervision/brake.ts';
import type { ScopeCount } from '../../store/supervision/past-deadline.ts';
import type { TransitionEnvironment } from '../../store/transitions/transition-rules.ts';

export interface Candidate {
  node: JudgedNode;
  to: NodeStatus;
}

export interface BrakeResult<C extends Candidate> {
  allowed: C[];
  held: { node: JudgedNode; held: Held }[];
}

interface BrakeServices {
  clock: Clock;
  environment: TransitionEnvironment;
}

type Placed = Pick<JudgedNode, 'pool' | 'zone'>;

const keyOf = ({ scope, name }: Scope) => `${scope} ${name}`;

const scopesOf = (node: Placed): Scope[] => [
  { scope: 'pool', name: node.pool },
  ...(node.zone === null ? [] : [{ scope: 'zone' as const, name: node.zone }]),
];

/** Pools come before zones: a zone opens no hold for nodes that a hold of their pool covers. */
const distinctScopes = (nodes: readonly Placed[]): Scope[] =>
  [...new Map(nodes.flatMap(scopesOf).map((scope) => [keyOf(scope), scope])).values()].sort(
    (a, b) => Number(a.scope === 'zone') - Number(b.scope === 'zone'),
  );

const countIn = (counts: readonly ScopeCount[], { scope, name }: Scope): number =>
  counts.reduce((sum, each) => sum + (each[scope] === name ? each.count : 0), 0);

/** The largest limit that PostgreSQL takes as an integer. */
const maxCount = 2_147_483_647;

interface ScopeState {
  scope: Scope;
  policy: BrakePolicy;
  currentHold: HoldRow | undefined;
  counts: PhaseCounts;
}

/**
 * Fills in populations, counting the fleet only as far as needed. With fewer failing nodes than the
 * minimum there is no mass failure, and beyond the limit of the query the exact count is
 * irrelevant.
 */
async function fillPopulations(tx: Transaction, states: ScopeState[], rule: NodeRule): Promise<void> {
  const undecided = states.filter(
    ({ currentHold, counts, policy }) => !currentHold && counts.due + counts.recent >= policy.min_nodes,
  );
  const queries = undecided.map(({ scope, counts, policy }) => ({
    ...scope,
    max: Math.min(maxCount, Math.ceil((counts.due + counts.recent) / policy.fraction) + 1),
  }));
  const populations = await countPopulationsUpTo(tx, queries, rule.phase);
  for (const [index, { counts }] of undecided.entries())
    counts.population = recentBesidesPhase(rule.phase, counts.recent) + (populations[index] ?? 0);
}

const describeMassFailure = (rule: string, { scope, name }: Scope, counts: PhaseCounts, window_seconds: number) =>
  `${counts.due + counts.recent} of ${counts.population} machines in ${scope} ${name} would be ${rule === 'rescue-over' ? 'destroyed' : 'given up'} within ${window_seconds} s`;

/** A hold that a person resumed, or that expired, releases its nodes. They open no other hold. */
const isReleasing = (hold: HoldRow | undefined, now: Date): boolean =>
  hold !== undefined && (hold.resumed_at !== null || hold.held_until <= now);

interface ScopeDecision {
  decision: BrakeDecision;
  hold: HoldRow | undefined;
}

const isHeld = (decisions: ReadonlyMap<string, ScopeDecision>, node: Placed): boolean =>
  scopesOf(node).some((scope) => decisions.get(keyOf(scope))?.decision.allow === 'none');

/**
 * Decides for each pool and zone of the nodes, and opens a hold where a mass failure begins. One
 * incident opens one hold: a zone whose failing nodes are all held by their pools opens none.
 */
async function decideScopes(
  tx: Transaction,
  { clock, environment }: BrakeServices,
  rule: NodeRuleName,
  nodes: readonly Placed[],
  due: readonly ScopeCount[],
  now: Date,
): Promise<Map<string, ScopeDecision>> {
  const { brake, decide } = environment;
  const scopes = distinctScopes(nodes);
  const pools = scopes.flatMap(({ scope, name }) => (scope === 'pool' ? [name] : []));
  const { holds, recent, poolPolicies } = await readBrakeState(
    tx,
    rule,
    secondsLater(now, -brake.window_seconds),
    pools,
  );
  const openHolds = new Map(holds.map((hold) => [keyOf(hold), hold]));
  const lastMinute = openHolds.size > 0 ? await countRecentVerdicts(tx, rule, secondsLater(now, -60)) : [];
  const isUnhandled = (count: ScopeCount) =>
    !scopesOf(count).some((scope) => isReleasing(openHolds.get(keyOf(scope)), now));
  const unhandled = { due: due.filter(isUnhandled), recent: recent.filter(isUnhandled) };
  const states = scopes.flatMap((scope): ScopeState[] => {
    const own = scope.scope === 'pool' ? poolPolicies.get(scope.name) : undefined;
    // Verdicts on an observe-only pool are only recorded, so there is nothing to hold back.
    if (own?.isObserveOnly) return [];
    const currentHold = openHolds.get(keyOf(scope));
    const counts = {
      due: countIn(unhandled.due, scope),
      // After a hold, verdicts are paced per minute, whatever the window of the brake.
      recent: countIn(currentHold ? lastMinute : unhandled.recent, scope),
      // The pace is a share of the population at the start of the hold; otherwise it would slow
      // down with every verdict.
      population: currentHold?.population ?? Number.POSITIVE_INFINITY,
    };
    return [{ scope, policy: { ...environment.brake_policy, ...own }, currentHold, counts }];
  });
  await fillPopulations(tx, states, nodeRules[rule]);
  const decisions = new Map<string, ScopeDecision>();
  for (const { scope, policy, currentHold, counts } of states) {
    const key = keyOf(scope);
    const known = currentHold && { held_until: currentHold.held_until, resumed: currentHold.resumed_at !== null };
    const decision = decide.decideBrake(counts, policy, brake, known, now);
    if (decision.allow !== 'none' || !decision.opens) {
      decisions.set(key, { decision, hold: currentHold });
      continue;
    }
    const needsHold = (node: Placed) => node[scope.scope] === scope.name && !isHeld(decisions, node);
    if (!nodes.some(needsHold)) continue;
    counts.population =
      recentBesidesPhase(nodeRules[rule].phase, counts.recent) +
      (await countPopulation(tx, scope, nodeRules[rule].phase));
    const hold = await openHold(tx, {
      hold_id: newHoldId(clock),
      kind: 'mass-failure',
      rule,
      ...scope,
      reason: describeMassFailure(rule, scope, counts, brake.window_seconds),
      negative: counts.due + counts.recent,
      population: counts.population,
      since: now,
      held_until: decision.held_until,
    });
    decisions.set(key, { decision, hold });
  }
  return decisions;
}

/** Counts nodes by pool and zone. */
export const countByScope = (nodes: readonly Placed[]): ScopeCount[] => {
  const counts = new Map<string, ScopeCount>();
  for (const { pool, zone } of nodes) {
    const entry = counts.get(`${pool} ${zone}`) ?? { pool, zone, count: 0 };
    entry.count++;
    counts.set(`${pool} ${zone}`, entry);
  }
  return [...counts.values()];
};

/** Maps each node under maintenance to its window. */
async function findWindows(
  tx: Transaction,
  windows: readonly MaintenanceRow[],
  candidates: readonly Candidate[],
): Promise<Map<NodeId, MaintenanceRow>> {
  if (windows.length === 0) return new Map();
  const ids = candidates.map(({ node }) => node.node_id);
  const labels = await readNodeLabels(tx, ids);
  return new Map(
    candidates.flatMap(({ node }) => {
      const placed = { ...node, labels: labels.get(node.node_id) ?? {} };
      const window = windows.find((each) => coversNode(each, placed));
      return window ? [[node.node_id, window] as const] : [];
    }),
  );
}

/**
 * Splits candidates into verdicts to write now and verdicts to hold. `others` counts the nodes that
 * the rule would decide on besides these candidates, which may be one batch of many.
 */
export async function applyBrake<C extends Candidate>(
  tx: Transaction,
  services: BrakeServices,
  rule: NodeRuleName,
  candidates: C[],
  others: readonly ScopeCount[],
  now: Date,
): Promise<BrakeResult<C>> {
  const { negative, en_masse } = nodeRules[rule];
  const result: BrakeResult<C> = { allowed: [], held: [] };
  if (candidates.length === 0) return result;
  const windows = negative ? await listActiveWindows(tx, now) : [];
  if (windows.length === 0 && en_masse !== 'hold') return { allowed: candidates, held: [] };
  const windowByNode = await findWindows(tx, windows, candidates);
  const unblocked = candidates.filter(({ node }) => !windowByNode.has(node.node_id)).map(({ node }) => node);
  const counts = countByScope(unblocked);
  const decisions =
    en_masse === 'hold'
      ? await decideScopes(tx, services, rule, counts, [...counts, ...others], now)
      : new Map<string, ScopeDecision>();
  if (windowByNode.size === 0 && [...decisions.values()].every(({ decision }) => decision.allow === 'all'))
    return { allowed: candidates, held: [] };
  const countedByScope = new Map<string, number>();

  const hold = ({ node, to }: C, kind: Held['kind'], hold_id: string, reason: string, held_until: Date) => {
    const since = node.held?.hold === hold_id ? node.held.since : now.toISOString();
    result.held.push({
      node,
      held: { rule, to, kind, hold: hold_id, reason, since, held_until: held_until.toISOString() },
    });
  };

  for (const candidate of candidates) {
    const { node } = candidate;
    const window = windowByNode.get(node.node_id);
    if (window) {
      hold(candidate, 'maintenance', window.name, `maintenance ${window.name}`, window.ends_at);
      continue;
    }
    const keys = scopesOf(node).map(keyOf);
    const blockingKey = keys.find((key) => {
      const decision = decisions.get(key)?.decision;
      return (
        decision?.allow === 'none' || (decision?.allow === 'some' && (countedByScope.get(key) ?? 0) >= decision.now)
      );
    });
    for (const key of keys) countedByScope.set(key, (countedByScope.get(key) ?? 0) + 1);
    const blocker = blockingKey === undefined ? undefined : decisions.get(blockingKey);
    if (!blocker?.hold) {
      result.allowed.push(candidate);
      continue;
    }
    const { decision } = blocker;
    const position = (countedByScope.get(blockingKey ?? '') ?? 1) - 1 - (decision.allow === 'some' ? decision.now : 0);
    const until = decision.allow === 'some' ? resumeTime(position, decision.per_minute, now) : blocker.hold.held_until;
    hold(candidate, 'mass-failure', blocker.hold.hold_id, blocker.hold.reason, until);
  }
  return result;
}

/**
 * Opens a hold, which pauses launches, if the pausing rules wrote too many verdicts lately. This
 * runs apart from the verdicts, so that a thousand of them cost one count of the fleet.
 */
export async function pauseLaunches(tx: Transaction, services: BrakeServices, now: Date): Promise<void> {
  const since = secondsLater(now, -services.environment.brake.window_seconds);
  const busy = await findRulesWithRecentVerdicts(tx, pausingRules, since);
  for (const rule of pausingRules)
    if (busy.has(rule)) await decideScopes(tx, services, rule, await countRecentVerdicts(tx, rule, since), [], now);
}
