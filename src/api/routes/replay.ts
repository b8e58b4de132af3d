/** Replays a proposed policy against recorded history. Changes and stores nothing. */
import { type Clock, now, pause, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { PoolDocument, ProposedPool } from '../../contract/pool.ts';
import type { ReplayedPool } from '../../contract/supervision/replay.ts';
import type { ReplayOutcome } from '../../lifecycle/replay/difference.ts';
import { type Decision, type DifferenceKind, unknownKinds } from '../../lifecycle/replay/difference.ts';
import type { History, ReplayPolicy } from '../../lifecycle/replay/history.ts';
import { type Replay, replaySteps, replayTotal } from '../../lifecycle/replay/replay.ts';
import { readHistory, toReplayPolicy } from '../../store/replay/replay-history.ts';
import { listPools, readCurrentDocuments } from '../../store/rows/pools.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { checkRuntimeClass } from './pools.ts';

const defaultSeconds = 30 * 86_400;
/**
 * Limits boots and facts. The pools share the limit, but each gets at least `minRecordsPerPool`.
 */
const maxRecords = 100_000;
const minRecordsPerPool = 1000;
const maxListedDifferences = 2000;

/** Parts of a pool document that are merged field by field. */
const mergedParts = ['budgets', 'heartbeat', 'brake'] as const;

/** A document with a driver replaces the current one; any other changes only its own fields. */
export function applyProposal(part: ProposedPool, present: PoolDocument): PoolDocument {
  const { driver } = part;
  if (driver !== undefined) return { ...part, driver };
  const fields = mergedParts.flatMap((name) => (part[name] ? [[name, { ...present[name], ...part[name] }]] : []));
  return { ...present, ...part, driver: present.driver, ...Object.fromEntries(fields) };
}

/**
 * Returns the proposed document of each pool. A document for the pool wins over one for all pools.
 */
async function readProposals(
  policy: readonly ProposedPool[],
  services: ApiServices,
): Promise<Map<string, PoolDocument>> {
  const byName = new Map<string | undefined, ProposedPool>();
  for (const [place, part] of policy.entries()) {
    if (byName.has(part.name))
      throw new ApiProblem('invalid_request', {
        detail: `Two documents are for ${part.name === undefined ? 'every pool' : `the pool ${part.name}`}.`,
        errors: [{ path: `/body/policy/${place}/name`, message: 'must be unique' }],
      });
    checkRuntimeClass(part.runtime_class, `/body/policy/${place}`, services);
    byName.set(part.name, part);
  }
  const forAll = byName.get(undefined);
  const names = new Set([
    ...policy.flatMap(({ name }) => (name === undefined ? [] : [name])),
    ...(forAll ? (await listPools(services.db)).map(({ name }) => name) : []),
  ]);
  const present = await readCurrentDocuments(services.db, [...names]);
  return new Map(
    [...names].sort().map((name) => {
      const document = present.get(name);
      const part = byName.get(name) ?? forAll;
      if (!document || !part) throw new ApiProblem('pool_not_found', `There is no pool named ${name}.`);
      if (part.driver !== undefined && part.driver !== document.driver)
        throw new ApiProblem('driver_fixed', `The pool ${name} uses ${document.driver}.`);
      return [name, applyProposal(part, document)];
    }),
  );
}

const decisionWire = ({ at, ...rest }: Decision) => ({ ...rest, at: at?.toISOString() ?? null });

const replayWire = (pool: string, { differencesByKind, differences, unknowns, ...counts }: Replay): ReplayedPool => ({
  pool,
  ...counts,
  otherwise: differences.length,
  kinds: Object.entries(differencesByKind).map(([kind, count]) => ({ kind: kind as DifferenceKind, count })),
  differences: differences.slice(0, maxListedDifferences).map((difference) => ({
    ...difference,
    pool,
    at: difference.at.toISOString(),
    was: decisionWire(difference.was),
    would_be: decisionWire(difference.would_be),
  })),
  untold: unknowns.map((each) => ({ ...each, says: unknownKinds[each.kind] })),
});

/**
 * The replay yields after this many steps. A replica that blocks for a second misses heartbeats and
 * would report an ingest gap.
 */
const stepsAtOnce = 1000;

async function replayWithPauses(history: History, proposed: ReplayPolicy, clock: Clock): Promise<Replay> {
  const outcomes: ReplayOutcome[] = [];
  let steps = 0;
  for (const each of replaySteps(history, proposed)) {
    if (each) outcomes.push(each);
    if (++steps % stepsAtOnce === 0) await pause(clock, 0);
  }
  return replayTotal(history, proposed, outcomes);
}

export const replayHandlers: Pick<Handlers, 'policy-replay'> = {
  async 'policy-replay'({ body }, services) {
    const { environment } = services;
    const until = now(services.clock);
    const since = body.since ? new Date(body.since) : secondsLater(until, -defaultSeconds);
    const proposals = await readProposals(body.policy, services);
    const max_rows = Math.max(minRecordsPerPool, Math.floor(maxRecords / proposals.size));
    const pools: ReplayedPool[] = [];
    // One pool after the other, since one history may be as large as a request may read.
    for (const [pool, document] of proposals) {
      const history = await readHistory(services, { pool, since, until, max_rows });
      pools.push(
        replayWire(pool, await replayWithPauses(history, toReplayPolicy(document, environment), services.clock)),
      );
    }
    return { since: since.toISOString(), until: until.toISOString(), pools };
  },
};
