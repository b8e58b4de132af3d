/**
 * The judgements the server is composed of, as values. The product has one of each; a scenario's counter-test composes a
 * server with one of them broken, and must then fail.
 */
import { deadlineAfterAdvance } from './boot-advance.ts';
import { leaveOf } from './brake.ts';
import { resolveBudget } from './budgets.ts';
import { effectOfBeat } from './claims.ts';
import { isConfirmed } from './findings.ts';
import { learnBudget } from './learned-budget.ts';
import { judgeLiveness } from './liveness.ts';
import { nextOfRecovery } from './recovery.ts';
import { effectOfRegistration } from './registration.ts';
import { isOrphaned } from './residue.ts';
import { isObserved } from './rules.ts';

export const deciders = {
  resolveBudget,
  deadlineAfterAdvance,
  effectOfBeat,
  effectOfRegistration,
  judgeLiveness,
  learnBudget,
  leaveOf,
  isObserved,
  isConfirmed,
  nextOfRecovery,
  isOrphaned,
};

export type Deciders = typeof deciders;
