/**
 * Applies the mass-failure brake: which verdicts of a rule may be written now, and which are held,
 * by what and until when.
 */
import { type Clock, secondsLater } from '../../base/clock.ts';
import { type NodeId, newHoldId } from '../../base/ids.ts';
import type { Held } from '../../contract/node.ts';
import { type BrakeDecision, type BrakePolicy, type PhaseCounts, resumesAt } from '../../lifecycle/brake/brake.ts';
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
import { activeWindows, coversNode, labelsOf, type MaintenanceRow } from '../../store/rows/maintenance.ts';
import {
  brakeMemory,
  type HoldRow,
  openHold,
  populationOf,
  populationsUpTo,
  recentVerdicts,
  rulesWithRecentVerdicts,
  type Scope,
} from '../../store/supervision/brake.ts';
import type { ScopeCount } from '../../store/supervision/due-rows.ts';
import type { TransitionEnvironment } from '../../store/transitions/transition-rules.ts';

export interface Candidate {
  node: JudgedNode;
  to: NodeStatus;
}

export interface Braked<C extends Candidate> {
  go: C[];
  held: { node: JudgedNode; held: Held }[];
}

interface Surroundings {
  clock: Clock;
  environment: TransitionEnvironment;
}

type Placed = Pick<JudgedNode, 'pool' | 'zone'>;

const keyOf = ({ scope, name }: Scope) => `${scope} ${name}`;

const scopesOf = (node: Placed): Scope[] => [
  { scope: 'pool', name: node.pool },
  ...(node.zone === null ? [] : [{ scope: 'zone' as const, name: node.zone }]),
];

/** Pools come before zones, because a zone depends on the nodes that its pools hold. */
const distinctScopes = (nodes: readonly Placed[]): Scope[] =>
  [...new Map(nodes.flatMap(scopesOf).map((scope) => [keyOf(scope), scope])).values()].sort(
    (a, b) => Number(a.scope === 'zone') - Number(b.scope === 'zone'),
  );

const crowdOf = (crowds: readonly ScopeCount[], { scope, name }: Scope): number =>
  crowds.reduce((sum, crowd) => sum + (crowd[scope] === name ? crowd.count : 0), 0);

const maxCount = 2_147_483_647;

interface Weighed {
  scope: Scope;
  policy: BrakePolicy;
  standing: HoldRow | undefined;
  share: PhaseCounts;
}

/**
 * Counts the fleet only as far as needed: below the minimum no share is a mass failure, and above
 * the share's limit the exact count does not matter.
 */
async function weigh(tx: Transaction, weighed: Weighed[], rule: NodeRule): Promise<void> {
  const open = weighed.filter(
    ({ standing, share, policy }) => !standing && share.due + share.recent >= policy.min_nodes,
  );
  const queries = open.map(({ scope, share, policy }) => ({
    ...scope,
    max: Math.min(maxCount, Math.ceil((share.due + share.recent) / policy.fraction) + 1),
  }));
  const counts = await populationsUpTo(tx, queries, rule.phase);
  for (const [place, { share }] of open.entries())
    share.population = recentBesidesPhase(rule.phase, share.recent) + (counts[place] ?? 0);
}

const massReason = (rule: string, { scope, name }: Scope, share: PhaseCounts, window_seconds: number) =>
  `${share.due + share.recent} of ${share.population} machines in ${scope} ${name} would be ${rule === 'rescue-over' ? 'destroyed' : 'given up'} within ${window_seconds} s`;

/** Resumed by a person, or expired: its nodes are being released and open no other hold. */
const isSettled = (hold: HoldRow | undefined, now: Date): boolean =>
  hold !== undefined && (hold.resumed_at !== null || hold.held_until <= now);

interface Said {
  decision: BrakeDecision;
  hold: HoldRow | undefined;
}

const isKept = (said: ReadonlyMap<string, Said>, node: Placed): boolean =>
  scopesOf(node).some((scope) => said.get(keyOf(scope))?.decision.allow === 'none');

/**
 * Asks the brake about each pool and zone concerned, and opens a hold where a mass failure begins.
 * A failure is one incident: a zone whose failing nodes are all held by their pools opens no hold.
 */
async function permissionsOf(
  tx: Transaction,
  { clock, environment }: Surroundings,
  rule: NodeRuleName,
  nodes: readonly Placed[],
  due: readonly ScopeCount[],
  now: Date,
): Promise<Map<string, Said>> {
  const { brake, decide } = environment;
  const scopes = distinctScopes(nodes);
  const pools = scopes.flatMap(({ scope, name }) => (scope === 'pool' ? [name] : []));
  const { holds, recent, policies } = await brakeMemory(tx, rule, secondsLater(now, -brake.window_seconds), pools);
  const open = new Map(holds.map((hold) => [keyOf(hold), hold]));
  const lastMinute = open.size > 0 ? await recentVerdicts(tx, rule, secondsLater(now, -60)) : [];
  const isNews = (crowd: ScopeCount) => !scopesOf(crowd).some((scope) => isSettled(open.get(keyOf(scope)), now));
  const news = { due: due.filter(isNews), recent: recent.filter(isNews) };
  const weighed = scopes.flatMap((scope): Weighed[] => {
    const own = scope.scope === 'pool' ? policies.get(scope.name) : undefined;
    // An observe-only pool has nothing to hold back; its verdicts are only recorded.
    if (own?.observed) return [];
    const standing = open.get(keyOf(scope));
    // After a hold, verdicts are paced per minute, whatever the window of the brake.
    const lately = standing ? lastMinute : news.recent;
    const share = {
      due: crowdOf(news.due, scope),
      recent: crowdOf(lately, scope),
      // The pace is a share of the population at the start of the hold; otherwise it would slow
      // down with every verdict.
      population: standing?.population ?? Number.POSITIVE_INFINITY,
    };
    return [{ scope, policy: own ?? environment.brake_policy, standing, share }];
  });
  await weigh(tx, weighed, nodeRules[rule]);
  const said = new Map<string, Said>();
  for (const { scope, policy, standing, share } of weighed) {
    const key = keyOf(scope);
    const known = standing && { held_until: standing.held_until, resumed: standing.resumed_at !== null };
    const decision = decide.decideBrake(share, policy, brake, known, now);
    if (decision.allow !== 'none' || !decision.opens) {
      said.set(key, { decision, hold: standing });
      continue;
    }
    const isLoose = (node: Placed) => node[scope.scope] === scope.name && !isKept(said, node);
    if (!nodes.some(isLoose)) continue;
    share.population =
      recentBesidesPhase(nodeRules[rule].phase, share.recent) + (await populationOf(tx, scope, nodeRules[rule].phase));
    const hold = await openHold(tx, {
      hold_id: newHoldId(clock),
      kind: 'mass-failure',
      rule,
      ...scope,
      reason: massReason(rule, scope, share, brake.window_seconds),
      negative: share.due + share.recent,
      population: share.population,
      since: now,
      held_until: decision.held_until,
    });
    said.set(key, { decision, hold });
  }
  return said;
}

export const crowdsOf = (nodes: readonly Placed[]): ScopeCount[] => {
  const counted = new Map<string, ScopeCount>();
  for (const { pool, zone } of nodes) {
    const crowd = counted.get(`${pool} ${zone}`) ?? { pool, zone, count: 0 };
    crowd.count++;
    counted.set(`${pool} ${zone}`, crowd);
  }
  return [...counted.values()];
};

/** Maps each node under maintenance to its window. */
async function windowsOver(
  tx: Transaction,
  windows: readonly MaintenanceRow[],
  candidates: readonly Candidate[],
): Promise<Map<NodeId, MaintenanceRow>> {
  if (windows.length === 0) return new Map();
  const ids = candidates.map(({ node }) => node.node_id);
  const labels = await labelsOf(tx, ids);
  return new Map(
    candidates.flatMap(({ node }) => {
      const placed = { ...node, labels: labels.get(node.node_id) ?? {} };
      const window = windows.find((each) => coversNode(each, placed));
      return window ? [[node.node_id, window] as const] : [];
    }),
  );
}

/**
 * `others` counts the nodes the rule would decide on besides the candidates, which may be only a
 * batch.
 */
export async function applyBrake<C extends Candidate>(
  tx: Transaction,
  surroundings: Surroundings,
  rule: NodeRuleName,
  candidates: C[],
  others: readonly ScopeCount[],
  now: Date,
): Promise<Braked<C>> {
  const { negative, en_masse } = nodeRules[rule];
  const result: Braked<C> = { go: [], held: [] };
  if (candidates.length === 0) return result;
  const windows = negative ? await activeWindows(tx, now) : [];
  if (windows.length === 0 && en_masse !== 'hold') return { go: candidates, held: [] };
  const workedOn = await windowsOver(tx, windows, candidates);
  const loose = candidates.filter(({ node }) => !workedOn.has(node.node_id)).map(({ node }) => node);
  const crowds = crowdsOf(loose);
  const said =
    en_masse === 'hold'
      ? await permissionsOf(tx, surroundings, rule, crowds, [...crowds, ...others], now)
      : new Map<string, Said>();
  if (workedOn.size === 0 && [...said.values()].every(({ decision }) => decision.allow === 'all'))
    return { go: candidates, held: [] };
  const passed = new Map<string, number>();

  const keep = ({ node, to }: C, kind: Held['kind'], hold: string, reason: string, held_until: Date) => {
    const since = node.held?.hold === hold ? node.held.since : now.toISOString();
    result.held.push({ node, held: { rule, to, kind, hold, reason, since, held_until: held_until.toISOString() } });
  };

  for (const candidate of candidates) {
    const { node } = candidate;
    const window = workedOn.get(node.node_id);
    if (window) {
      keep(candidate, 'maintenance', window.name, `maintenance ${window.name}`, window.ends_at);
      continue;
    }
    const keys = scopesOf(node).map(keyOf);
    const barring = keys.find((key) => {
      const decision = said.get(key)?.decision;
      return decision?.allow === 'none' || (decision?.allow === 'some' && (passed.get(key) ?? 0) >= decision.now);
    });
    for (const key of keys) passed.set(key, (passed.get(key) ?? 0) + 1);
    const bar = barring === undefined ? undefined : said.get(barring);
    if (!bar?.hold) {
      result.go.push(candidate);
      continue;
    }
    const { decision } = bar;
    const place = (passed.get(barring ?? '') ?? 1) - 1 - (decision.allow === 'some' ? decision.now : 0);
    const until = decision.allow === 'some' ? resumesAt(place, decision.per_minute, now) : bar.hold.held_until;
    keep(candidate, 'mass-failure', bar.hold.hold_id, bar.hold.reason, until);
  }
  return result;
}

/**
 * Pauses launches if too many verdicts of certain rules were written lately. It runs apart from the
 * verdicts, so that a thousand of them cost one count of the fleet.
 */
export async function pauseLaunches(tx: Transaction, surroundings: Surroundings, now: Date): Promise<void> {
  const since = secondsLater(now, -surroundings.environment.brake.window_seconds);
  const busy = await rulesWithRecentVerdicts(tx, pausingRules, since);
  for (const rule of pausingRules)
    if (busy.has(rule)) await permissionsOf(tx, surroundings, rule, await recentVerdicts(tx, rule, since), [], now);
}
