/** Describes whether a budget changes after you set it. */
import { maxMovePerDay } from '../../../../src/lifecycle/boots/learned-budget.ts';

export type BudgetPolicy = 'fixed' | 'learned';

export const policyWords: Record<BudgetPolicy, string> = {
  fixed: 'The budget stays until you change it.',
  learned: `A new budget stays for a day. Then recorded boots move it by at most ${maxMovePerDay * 100} % a day.`,
};
