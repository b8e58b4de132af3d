/** Describes what moves a budget after it is set. */
import { mostMovePerDay } from '../../../../src/lifecycle/boots/learned-budget.ts';

export type BudgetPolicy = 'fixed' | 'learned';

export const policyWords: Record<BudgetPolicy, string> = {
  fixed: 'It stays until somebody changes it.',
  learned: `A new number stands for a day; then boots move it, by at most ${mostMovePerDay * 100} % a day.`,
};
