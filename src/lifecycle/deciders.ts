/**
 * The decision functions that the server is built from. A counter-test starts the server with a
 * broken version of one, and expects the test of that behaviour to fail.
 */
import { nextRecoveryMove } from './actions/recovery.ts';
import { learnBudget } from './boots/learned-budget.ts';
import { decideBrake } from './brake/brake.ts';
import { deadlineAfterAdvance } from './deadlines/boot-advance.ts';
import { resolveBudget } from './deadlines/budgets.ts';
import { judgeLiveness } from './deadlines/liveness.ts';
import { isConfirmed } from './findings/findings.ts';
import { isOrphaned } from './findings/residue.ts';
import { effectOfRegistration } from './model/registration-effect.ts';
import { effectOfBeat } from './model/reports.ts';
import { isObserveOnly } from './model/rules.ts';

export const deciders = {
  resolveBudget,
  deadlineAfterAdvance,
  effectOfBeat,
  effectOfRegistration,
  judgeLiveness,
  learnBudget,
  decideBrake,
  isObserveOnly,
  isConfirmed,
  nextRecoveryMove,
  isOrphaned,
};

export type Deciders = typeof deciders;
