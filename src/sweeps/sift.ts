/** Asks the brake: which of the verdicts a rule has found may be written now, and which are held back, by what and until when. */
import { type Clock, secondsLater } from '../base/clock.ts';
import { newHoldId } from '../base/ids.ts';
import type { Held } from '../contract/node.ts';
import { type Leave, type Share, turnOf } from '../lifecycle/brake.ts';
import { type NodeRule, type NodeRuleName, nodeRules } from '../lifecycle/rules.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import {
  brakePolicies,
  type HoldRow,
  openHold,
  openHolds,
  populationOf,
  recentVerdicts,
  type Scope,
} from '../store/brake.ts';
import type { Transaction } from '../store/database.ts';
import type { DoorEnvironment } from '../store/door-rules.ts';
import type { Crowd } from '../store/due.ts';
import { activeWindows, coversNode } from '../store/maintenance.ts';
import type { NodeRow } from '../store/nodes.ts';

export interface Candidate {
  node: NodeRow;
  to: NodeStatus;
}

export interface Sifted<C extends Candidate> {
  go: C[];
  held: { node: NodeRow; held: Held }[];
}

interface Surroundings {
  clock: Clock;
  environment: DoorEnvironment;
}

const keyOf = ({ scope, name }: Scope) => `${scope} ${name}`;

const scopesOf = (node: { pool: string; zone: string | null }): Scope[] => [
  { scope: 'pool', name: node.pool },
  ...(node.zone === null ? [] : [{ scope: 'zone' as const, name: node.zone }]),
];

const crowdOf = (crowds: readonly Crowd[], { scope, name }: Scope): number =>
  crowds.reduce((sum, crowd) => sum + (crowd[scope] === name ? crowd.count : 0), 0);

/** Counts the fleet only where it matters: below the least number no share of it can be a mass failure. */
async function shareOf(
  tx: Transaction,
  scope: Scope,
  due: readonly Crowd[],
  recent: readonly Crowd[],
  { phase }: NodeRule,
  least: number,
  open: HoldRow | undefined,
): Promise<Share> {
  const share = { due: crowdOf(due, scope), recent: crowdOf(recent, scope), population: Number.POSITIVE_INFINITY };
  if (!open && share.due + share.recent < least) return share;
  // Those that were decided on have left the phase they are a share of.
  const left = phase.includes('cleaning') ? 0 : share.recent;
  return { ...share, population: left + (await populationOf(tx, scope, phase)) };
}

const massReason = (rule: string, { scope, name }: Scope, share: Share, window_seconds: number) =>
  `${share.due + share.recent} of ${share.population} machines in ${scope} ${name} would be ${rule === 'rescue-over' ? 'destroyed' : 'given up'} within ${window_seconds} s`;

/** What the brake says of each pool and zone concerned. Opens the hold where a mass failure begins. */
async function leaves(
  tx: Transaction,
  { clock, environment }: Surroundings,
  rule: NodeRuleName,
  scopes: Scope[],
  due: readonly Crowd[],
  now: Date,
): Promise<Map<string, { leave: Leave; hold: HoldRow | undefined }>> {
  const { brake, decide } = environment;
  const open = new Map((await openHolds(tx, rule)).map((hold) => [keyOf(hold), hold]));
  const recent = await recentVerdicts(tx, rule, secondsLater(now, -brake.window_seconds));
  const pools = scopes.flatMap(({ scope, name }) => (scope === 'pool' ? [name] : []));
  const policies = await brakePolicies(tx, pools);
  const found = new Map<string, { leave: Leave; hold: HoldRow | undefined }>();
  for (const scope of scopes) {
    const policy = (scope.scope === 'pool' ? policies.get(scope.name) : undefined) ?? environment.brake_policy;
    const standing = open.get(keyOf(scope));
    const share = await shareOf(tx, scope, due, recent, nodeRules[rule], policy.min_nodes, standing);
    const known = standing && { held_until: standing.held_until, resumed: standing.resumed_at !== null };
    const leave = decide.leaveOf(share, policy, brake, known, now);
    const opened =
      leave.leave === 'none' && leave.opens
        ? await openHold(tx, {
            hold_id: newHoldId(clock),
            kind: 'mass-failure',
            rule,
            ...scope,
            reason: massReason(rule, scope, share, brake.window_seconds),
            negative: share.due + share.recent,
            population: share.population,
            since: now,
            held_until: leave.held_until,
          })
        : undefined;
    found.set(keyOf(scope), { leave, hold: opened ?? standing });
  }
  return found;
}

const distinctScopes = (nodes: { pool: string; zone: string | null }[]): Scope[] => [
  ...new Map(nodes.flatMap(scopesOf).map((scope) => [keyOf(scope), scope])).values(),
];

export const crowdsOf = (nodes: { pool: string; zone: string | null }[]): Crowd[] => {
  const counted = new Map<string, Crowd>();
  for (const { pool, zone } of nodes) {
    const crowd = counted.get(`${pool} ${zone}`) ?? { pool, zone, count: 0 };
    crowd.count++;
    counted.set(`${pool} ${zone}`, crowd);
  }
  return [...counted.values()];
};

/** `due`: all that the rule would decide on now, where one batch does not hold them. */
export async function sift<C extends Candidate>(
  tx: Transaction,
  surroundings: Surroundings,
  rule: NodeRuleName,
  candidates: C[],
  due: readonly Crowd[] | undefined,
  now: Date,
): Promise<Sifted<C>> {
  const { negative, en_masse } = nodeRules[rule];
  const sifted: Sifted<C> = { go: [], held: [] };
  if (candidates.length === 0) return sifted;
  const windows = negative ? await activeWindows(tx, now) : [];
  const crowds = due ?? crowdsOf(candidates.map(({ node }) => node));
  const scopes = distinctScopes(candidates.map(({ node }) => node));
  const said = en_masse === 'hold' ? await leaves(tx, surroundings, rule, scopes, crowds, now) : new Map();
  const passed = new Map<string, number>();

  const keep = ({ node, to }: C, kind: Held['kind'], hold: string, reason: string, held_until: Date) => {
    const since = node.held?.hold === hold ? node.held.since : now.toISOString();
    sifted.held.push({ node, held: { rule, to, kind, hold, reason, since, held_until: held_until.toISOString() } });
  };

  for (const candidate of candidates) {
    const { node } = candidate;
    const window = windows.find((each) => coversNode(each, node));
    if (window) {
      keep(candidate, 'maintenance', window.name, `maintenance ${window.name}: ${window.reason}`, window.ends_at);
      continue;
    }
    const keys = scopesOf(node).map(keyOf);
    const barring = keys.find((key) => {
      const leave: Leave | undefined = said.get(key)?.leave;
      return leave?.leave === 'none' || (leave?.leave === 'some' && (passed.get(key) ?? 0) >= leave.now);
    });
    for (const key of keys) passed.set(key, (passed.get(key) ?? 0) + 1);
    const bar = barring === undefined ? undefined : said.get(barring);
    if (!bar?.hold) {
      sifted.go.push(candidate);
      continue;
    }
    const leave: Leave = bar.leave;
    const place = (passed.get(barring ?? '') ?? 1) - 1 - (leave.leave === 'some' ? leave.now : 0);
    const until = leave.leave === 'some' ? turnOf(place, leave.a_minute, now) : bar.hold.held_until;
    keep(candidate, 'mass-failure', bar.hold.hold_id, bar.hold.reason, until);
  }
  return sifted;
}

/** Verdicts that are written all the same: too many of them at once pause new launches into the same failure. */
export async function watchMass(
  tx: Transaction,
  surroundings: Surroundings,
  rule: NodeRuleName,
  decided: NodeRow[],
  now: Date,
): Promise<void> {
  if (nodeRules[rule].en_masse !== 'pause-launches' || decided.length === 0) return;
  await leaves(tx, surroundings, rule, distinctScopes(decided), [], now);
}
