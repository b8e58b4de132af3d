/** What bringing a machine up consists of, as a person sees it. */
import type { PoolDocument } from '../contract/pool.ts';
import { budgetOf, type DoorEnvironment } from '../store/door-rules.ts';
import type { PlanStep } from './stage.ts';

export const nodeProvisionKind = 'node-provision';

/** The rule on the row decides first; the step's own deadline is for what that rule cannot see. */
const slackSeconds = 60;

/** A try waits for room no longer than the queue's budget, and for the provider no longer than its queue and a doubled boot. */
export function nodeProvisionPlan(pool: PoolDocument, environment: DoorEnvironment): PlanStep[] {
  const queue = budgetOf('queue', pool, environment, null).seconds;
  const provision = budgetOf('provision', pool, environment, null).seconds;
  const launch = queue + 2 * provision + slackSeconds;
  return [
    { name: 'assign', label: 'Finding a machine', usual_seconds: 0.5, within_seconds: queue + slackSeconds },
    { name: 'launch', label: 'Launching', usual_seconds: 0.5, within_seconds: launch },
    { name: 'register', label: 'Waiting for it to register', usual_seconds: 2, within_seconds: null },
    { name: 'start', label: 'Starting up', usual_seconds: 1, within_seconds: null },
  ];
}
