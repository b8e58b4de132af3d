/** Describes what moves a budget after it is set. */
import { maxMovePerDay } from '../../../../src/lifecycle/boots/learned-budget.ts';

export type BudgetPolicy = 'fixed' | 'learned';

export const policyWords: Record<BudgetPolicy, string> = {
  fixed: 'It stays until you change it.',
  learned: `A new budget stays for a day. Then recorded boots move it by at most ${maxMovePerDay * 100} % a day.`,
};
