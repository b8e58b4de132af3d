/**
 * Handles the boots of a pool: shows samples and survival, computes what another budget would have
 * done, and sets a budget.
 */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { poolFor } from '../../contract/pool-fields/masked.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import { bandedCompletion, estimateSurvival } from '../../lifecycle/boots/survival.ts';
import { falseKillShare } from '../../lifecycle/boots/what-if.ts';
import type { BudgetPhase } from '../../lifecycle/model/states.ts';
import {
  countBootsSinceChange,
  imageOf,
  listNewestBootSamples,
  listRunningBoots,
} from '../../store/boots/boot-samples.ts';
import { findOpenBrakeHold } from '../../store/boots/learned-budgets.ts';
import { computeWhatIf } from '../../store/boots/what-if.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import {
  currentPool,
  declarePool,
  discardLearnedBudget,
  type PoolRow,
  readGenerationTime,
  readPool,
} from '../../store/rows/pools.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { actorOf } from '../http/callers.ts';
import type { ApiServices, Handlers } from '../services.ts';

const poolNotFoundProblem = (name: string) => new ApiProblem('pool_not_found', `There is no pool named ${name}.`);

async function mustFindPool(name: string, services: ApiServices): Promise<PoolRow> {
  const pool = await currentPool(services.db, name);
  if (!pool) throw poolNotFoundProblem(name);
  return pool;
}

const currentBudgetOf = (phase: BudgetPhase, pool: PoolRow, services: ApiServices) =>
  budgetOf(phase, pool.document, services.environment, null);

async function readLearning(pool: PoolRow, services: ApiServices) {
  const { learned, budgets } = pool.document;
  if (budgets?.policy !== 'learned' || !learned) return null;
  const { aim_seconds, because, stratum, completions, considered_at } = learned;
  const hold = await findOpenBrakeHold(services.db, pool);
  const frozen = hold ? `the brake has held since ${hold.since.toISOString()}: ${hold.reason}` : null;
  return { aim_seconds, because, stratum, completions, considered_at, frozen };
}

async function readPhase(phase: SamplePhase, pool: PoolRow, services: ApiServices) {
  const { db } = services;
  const samples = await listNewestBootSamples(db, pool.name, phase);
  const running = await listRunningBoots(db, pool.name, phase, now(services.clock));
  const steps = estimateSurvival([...samples, ...running]);
  const budget = currentBudgetOf(phase, pool, services);
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((quantile) => bandedCompletion(steps, quantile));
  const bandOf = (quantile: typeof p50) => ({
    low_seconds: quantile?.low ?? null,
    high_seconds: quantile?.high ?? null,
  });
  const change = await countBootsSinceChange(db, pool.name, phase);
  return {
    phase,
    budget_seconds: budget.seconds,
    budget_source: budget.source,
    // Both phases have the same rescue budget.
    rescue_seconds: currentBudgetOf('rescue', pool, services).seconds,
    policy: phase === 'provision' ? (pool.document.budgets?.policy ?? 'fixed') : ('fixed' as const),
    learning: phase === 'provision' ? await readLearning(pool, services) : null,
    p50_seconds: p50?.seconds ?? null,
    p90_seconds: p90?.seconds ?? null,
    p99_seconds: p99?.seconds ?? null,
    bands: { p50: bandOf(p50), p90: bandOf(p90), p99: bandOf(p99) },
    predicted_false_kill_share: falseKillShare(steps, budget.seconds),
    since_change: { ...change, at: change.at.toISOString() },
    running: running.length,
    survival: [
      { seconds: 0, share: 1, low: 1, high: 1 },
      ...steps.map(({ seconds, share, low, high }) => ({ seconds, share, low, high })),
    ],
    samples,
  };
}

const describePolicyChange = (from: 'fixed' | 'learned', to: 'fixed' | 'learned'): string =>
  from === to ? '' : { learned: '; learning is on', fixed: '; learning is off' }[to];

/** Only the provision budget can be learned. */
function mustBeLearnable(phase: SamplePhase, policy: 'fixed' | 'learned' | undefined): void {
  if (phase === 'start' && policy !== undefined)
    throw new ApiProblem('invalid_request', {
      detail: 'Only the provision budget can be learned.',
      errors: [{ path: '/body/policy', message: 'is only valid for the phase provision' }],
    });
}

export const bootHandlers: Pick<Handlers, 'pool-boots' | 'pool-what-if' | 'pool-budget'> = {
  async 'pool-boots'({ params }, services) {
    const pool = await mustFindPool(params.pool, services);
    const since = await readGenerationTime(services.db, pool.name, pool.make_generation);
    const phases = await Promise.all(
      (['provision', 'start'] as const).map((phase) => readPhase(phase, pool, services)),
    );
    const make = { generation: pool.make_generation, since: since.toISOString(), image: imageOf(pool.document) };
    return { pool: pool.name, make, phases };
  },
  async 'pool-what-if'({ params, body }, services) {
    const pool = await mustFindPool(params.pool, services);
    const { phase = 'provision', budget_seconds } = body;
    const current = currentBudgetOf(phase, pool, services);
    const document: PoolDocument = {
      ...pool.document,
      budgets: {
        ...pool.document.budgets,
        // Treat the requested budget as fixed, since a learned one would take its place.
        ...(phase === 'provision' && { policy: 'fixed' }),
        [`${phase}_seconds`]: budget_seconds,
      },
    };
    const rescue_seconds = budgetOf('rescue', document, services.environment, null).seconds;
    const since = body.since === undefined ? null : new Date(body.since);
    const whatIf = {
      pool: pool.name,
      phase,
      budget_seconds,
      rescue_seconds,
      since,
      current_seconds: current.seconds,
    };
    const { current_false_kill_count, ...counts } = await computeWhatIf(services.db, whatIf);
    const steps = estimateSurvival(await listNewestBootSamples(services.db, pool.name, phase));
    return {
      ...{ pool: pool.name, phase, budget_seconds, rescue_seconds, ...counts },
      predicted_false_kill_share: falseKillShare(steps, budget_seconds)?.share ?? null,
      current: {
        budget_seconds: current.seconds,
        budget_source: current.source,
        false_kill_count: current_false_kill_count,
      },
    };
  },
  async 'pool-budget'({ params, body, person, correlation_id }, services) {
    const { phase = 'provision', budget_seconds, policy, reason } = body;
    mustBeLearnable(phase, policy);
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
      const pool = await currentPool(tx, params.pool, 'for update of pool');
      if (!pool) throw poolNotFoundProblem(params.pool);
      const { learned: _, ...document } = pool.document;
      const before = currentBudgetOf(phase, pool, services);
      const policyBefore = document.budgets?.policy ?? 'fixed';
      const budgets = { ...document.budgets, [`${phase}_seconds`]: budget_seconds, ...(policy && { policy }) };
      const { changed, generation } = await declarePool(tx, params.pool, { ...document, budgets }, at);
      const hasDiscardedLearned =
        !changed && phase === 'provision' && (await discardLearnedBudget(tx, params.pool, at));
      if (!changed && !hasDiscardedLearned) return;
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'pool.budget_set',
          summary: `${phase} budget of pool ${params.pool} set to ${budget_seconds} s, was ${before.seconds} s${describePolicyChange(policyBefore, budgets.policy ?? 'fixed')}: ${reason}`,
          data: {
            ...{ pool: params.pool, generation, phase, from_seconds: before.seconds, from_source: before.source },
            ...{ seconds: budget_seconds, policy: budgets.policy ?? 'fixed', reason },
          },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    const pool = await readPool(services.db, params.pool);
    if (!pool) throw poolNotFoundProblem(params.pool);
    return poolFor(person().role, pool);
  },
};
