/**
 * A proposed policy against recorded history. Nothing is changed, and nothing is kept of the
 * question.
 */
import { type Clock, now, pause, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { PoolDocument, ProposedPool } from '../../contract/pool.ts';
import type { ReplayedPool } from '../../contract/supervision/replay.ts';
import type { ReplayOutcome } from '../../lifecycle/replay/difference.ts';
import { type Decision, type DifferenceKind, unknownKinds } from '../../lifecycle/replay/difference.ts';
import type { History, ReplayPolicy } from '../../lifecycle/replay/history.ts';
import { type Replay, replaySteps, replayTotal } from '../../lifecycle/replay/replay.ts';
import { readHistory, replayPolicyOf } from '../../store/replay/replay-history.ts';
import { currentDocuments, listPools } from '../../store/rows/pools.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { checkRuntimeClass } from './pools.ts';

const defaultSeconds = 30 * 86_400;
/** Of boots, and of facts, shared by the pools; but of each pool enough to say something. */
const mostOnRecord = 100_000;
const leastOfEach = 1000;
const mostListed = 2000;

/** Parts that have fields of their own lie over what is there field by field. */
const layered = ['budgets', 'heartbeat', 'brake'] as const;

/** A whole document stands for itself, as if it were declared; a part changes what it names. */
export function proposedFor(part: ProposedPool, present: PoolDocument): PoolDocument {
  const { driver } = part;
  if (driver !== undefined) return { ...part, driver };
  const fields = layered.flatMap((name) => (part[name] ? [[name, { ...present[name], ...part[name] }]] : []));
  return { ...present, ...part, driver: present.driver, ...Object.fromEntries(fields) };
}

/** Which document speaks of which pool: one that names it before one that speaks of all. */
async function proposalsOf(policy: readonly ProposedPool[], services: ApiServices): Promise<Map<string, PoolDocument>> {
  const speaking = new Map<string | undefined, ProposedPool>();
  for (const [place, part] of policy.entries()) {
    if (speaking.has(part.name))
      throw new ApiProblem('invalid_request', {
        detail: `Two documents speak of ${part.name === undefined ? 'every pool' : `the pool ${part.name}`}.`,
        errors: [{ path: `/body/policy/${place}/name`, message: 'must be there once' }],
      });
    checkRuntimeClass(part.runtime_class, `/body/policy/${place}`, services);
    speaking.set(part.name, part);
  }
  const forAll = speaking.get(undefined);
  const names = new Set([
    ...policy.flatMap(({ name }) => (name === undefined ? [] : [name])),
    ...(forAll ? (await listPools(services.db)).map(({ name }) => name) : []),
  ]);
  const present = await currentDocuments(services.db, [...names]);
  return new Map(
    [...names].sort().map((name) => {
      const document = present.get(name);
      const part = speaking.get(name) ?? forAll;
      if (!document || !part) throw new ApiProblem('pool_not_found', `There is no pool named ${name}.`);
      if (part.driver !== undefined && part.driver !== document.driver)
        throw new ApiProblem('driver_fixed', `The pool ${name} uses ${document.driver}.`);
      return [name, proposedFor(part, document)];
    }),
  );
}

const decisionWire = ({ at, ...rest }: Decision) => ({ ...rest, at: at?.toISOString() ?? null });

const wire = (pool: string, { otherwise, differences, untold, ...counts }: Replay): ReplayedPool => ({
  pool,
  ...counts,
  otherwise: differences.length,
  kinds: Object.entries(otherwise).map(([kind, count]) => ({ kind: kind as DifferenceKind, count })),
  differences: differences.slice(0, mostListed).map((difference) => ({
    ...difference,
    pool,
    at: difference.at.toISOString(),
    was: decisionWire(difference.was),
    would_be: decisionWire(difference.would_be),
  })),
  untold: untold.map((each) => ({ ...each, says: unknownKinds[each.kind] })),
});

/**
 * A replica that stands still for a second doubts its own hearing: after so many steps whoever
 * beats has a turn.
 */
const stepsAtOnce = 1000;

async function replayInTurns(history: History, proposed: ReplayPolicy, clock: Clock): Promise<Replay> {
  const found: ReplayOutcome[] = [];
  let steps = 0;
  for (const each of replaySteps(history, proposed)) {
    if (each) found.push(each);
    if (++steps % stepsAtOnce === 0) await pause(clock, 0);
  }
  return replayTotal(history, proposed, found);
}

export const replayHandlers: Pick<Handlers, 'policy-replay'> = {
  async 'policy-replay'({ body }, services) {
    const { environment } = services;
    const until = now(services.clock);
    const since = body.since ? new Date(body.since) : secondsLater(until, -defaultSeconds);
    const proposals = await proposalsOf(body.policy, services);
    const max_rows = Math.max(leastOfEach, Math.floor(mostOnRecord / proposals.size));
    const pools: ReplayedPool[] = [];
    // One after the other: each may be as large as what one request is allowed to read.
    for (const [pool, document] of proposals) {
      const asked = { pool, since, until, max_rows };
      const history = await readHistory(services, asked);
      pools.push(wire(pool, await replayInTurns(history, replayPolicyOf(document, environment), services.clock)));
    }
    return { since: since.toISOString(), until: until.toISOString(), pools };
  },
};
