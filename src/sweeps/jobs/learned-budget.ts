/**
 * `learned-budget`: moves the provision budget of learning pools towards their recorded boots,
 * except while the brake holds.
 */
import { type LearningQuestion, learnedReason, lessonOf, strata } from '../../lifecycle/boots/learned-budget.ts';
import { listRunningBoots } from '../../store/boots/boot-samples.ts';
import {
  findOpenBrakeHold,
  hasNewFixedBudget,
  listPoolsToLearn,
  listRecentBudgets,
  lockLearningPool,
  readBootsOf,
  saveLearnedBudget,
} from '../../store/boots/learned-budgets.ts';
import type { Transaction } from '../../store/pg/database.ts';
import type { PoolRow } from '../../store/rows/pools.ts';
import { budgetOf, ceilingOf, type TransitionEnvironment } from '../../store/transitions/transition-rules.ts';
import { handleEach } from '../runner/handle-each.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const wakingKinds = ['pool.declared', 'pool.budget_set', 'brake.resumed', 'brake.ended'];

/**
 * Reads the most similar boots first and stops when there are enough. Running boots count too:
 * leaving out those that already take long would make the pool look faster than it is.
 */
async function readBoots(tx: Transaction, pool: PoolRow, now: Date): Promise<LearningQuestion['boots']> {
  const running = await listRunningBoots(tx, pool.name, 'provision', now);
  const byStratum: LearningQuestion['boots'] = {};
  for (const stratum of strata) {
    const boots = [...(await readBootsOf(tx, pool, stratum, now)), ...running];
    byStratum[stratum] = boots;
    if (lessonOf(stratum, boots)) break;
  }
  return byStratum;
}

type Outcome = 'moved' | 'unchanged' | 'held';

async function updateBudget(
  tx: Transaction,
  name: string,
  environment: TransitionEnvironment,
  now: Date,
): Promise<Outcome> {
  const pool = await lockLearningPool(tx, name, now);
  if (!pool) return 'unchanged';
  if (await findOpenBrakeHold(tx, pool)) return 'held';
  const fixed_seconds = budgetOf('provision', { ...pool.document, learned: null }, environment, null).seconds;
  const from_seconds = pool.document.learned?.seconds ?? fixed_seconds;
  const question: LearningQuestion = {
    boots: await readBoots(tx, pool, now),
    fixed_seconds,
    floor_seconds: pool.document.budgets?.floor_seconds,
    ceiling_seconds: ceilingOf(pool.document, environment),
    current_seconds: from_seconds,
    recent_seconds: await listRecentBudgets(tx, pool, now),
    set_today: hasNewFixedBudget(pool, now),
  };
  const budget = environment.decide.learnBudget(question);
  const learned = !question.set_today && (budget.lesson !== null || budget.seconds !== fixed_seconds);
  await saveLearnedBudget(tx, pool, { from_seconds, budget, because: learnedReason(budget, question), learned }, now);
  return budget.moved ? 'moved' : 'unchanged';
}

export const learnedBudget = ({ db, environment }: SweepServices): Sweep => ({
  name: 'learned-budget',
  every_seconds: 60,
  isWokenBy: (kind) => wakingKinds.includes(kind),
  async run(now) {
    const outcomes: Outcome[] = [];
    const failed = await handleEach(await listPoolsToLearn(db, now), String, async (name) => {
      outcomes.push(await db.transaction((tx) => updateBudget(tx, name, environment, now)));
    });
    if (failed.length > 0) throw new Error(`learned budgets that could not be updated: ${failed.join('; ')}`);
    const count = (kind: Outcome) => outcomes.filter((each) => each === kind).length;
    return { decided: count('moved'), held: count('held') };
  },
});
