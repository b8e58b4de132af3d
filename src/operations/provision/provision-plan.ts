/** The planned steps that bring a machine up, and the function that queues the operation. */
import type { AllocationId, CorrelationId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { PlannedStep } from '../../drivers/driver.ts';
import { plannedHistory } from '../../lifecycle/progress/expectation.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { budgetOf, type TransitionEnvironment } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { PlanStep } from '../runtime/stage.ts';

export const nodeProvisionKind = 'node-provision';

/**
 * Added to the budget, so that the deadline rule on the row decides first. The time limit of the
 * step is only for cases that the rule misses.
 */
const slackSeconds = 60;

const queueSeconds = (pool: PoolDocument, environment: TransitionEnvironment) =>
  budgetOf('queue', pool, environment, null).seconds;

type PlanServices = Pick<OperationServices, 'environment' | 'drivers'>;

const stepOf = ({ label, usual_seconds, slow_seconds }: PlannedStep, name: string) => ({
  ...{ name, label, usual_seconds },
  ...(usual_seconds !== null &&
    slow_seconds !== undefined && { expected: plannedHistory(usual_seconds, slow_seconds) }),
});

/** Whether the driver's phases are the whole plan. */
const isDriverOnly = (pool: PoolDocument, drivers: PlanServices['drivers']): boolean => {
  const driver = drivers.get(pool.driver);
  return driver?.supervision === 'agentless' && driver.plan(pool.spec ?? {}).length > 1;
};

/**
 * Without an agent nothing registers, so the plan consists of the driver's phases. The last phase
 * ends when the machine is ready.
 */
const agentlessPlan = (phases: PlannedStep[], within_seconds: number): PlanStep[] =>
  phases.map((planned, index) => {
    const isLast = index === phases.length - 1;
    const name = `${isLast ? 'start' : 'launch'}:${planned.phase}`;
    return { ...stepOf(planned, name), within_seconds: isLast ? null : within_seconds };
  });

/**
 * A launch step may take the queue budget, for the provider's capacity, and twice the boot budget.
 */
export function bringUpPlan(pool: PoolDocument, { environment, drivers }: PlanServices): PlanStep[] {
  const provision = budgetOf('provision', pool, environment, null).seconds;
  const within_seconds = queueSeconds(pool, environment) + 2 * provision + slackSeconds;
  const phases = drivers.get(pool.driver)?.plan(pool.spec ?? {}) ?? [];
  if (isDriverOnly(pool, drivers)) return agentlessPlan(phases, within_seconds);
  const launch: Omit<PlanStep, 'within_seconds'>[] =
    phases.length > 1
      ? phases.map((planned) => stepOf(planned, `launch:${planned.phase}`))
      : [{ name: 'launch', label: 'Launching', usual_seconds: 0.5 }];
  return [
    ...launch.map((step) => ({ ...step, within_seconds })),
    { name: 'register', label: 'Waiting for it to register', usual_seconds: 2, within_seconds: null },
    { name: 'start', label: 'Starting up', usual_seconds: 1, within_seconds: null },
  ];
}

export const bringUpStages = ['launch', 'register', 'start'] as const;

/**
 * The first step, which waits for a free machine or room in the pool, may take the queue budget.
 */
function nodeProvisionPlan(pool: PoolDocument, services: PlanServices): PlanStep[] {
  const within_seconds = queueSeconds(pool, services.environment) + slackSeconds;
  const plan = bringUpPlan(pool, services);
  const [first, ...rest] = plan;
  // If the driver's phases are the whole plan, the first one includes the assignment.
  if (first && isDriverOnly(pool, services.drivers))
    return [{ ...first, name: first.name.replace('launch:', 'assign:'), within_seconds }, ...rest];
  return [{ name: 'assign', label: 'Finding a machine', usual_seconds: 0.5, within_seconds }, ...plan];
}

export interface ProvisionRequest {
  workflow_id: WorkflowId;
  allocation: { allocation_id: AllocationId; tenant: string };
  correlation_id: CorrelationId;
  actor: Actor | null;
  /** Set for a retry of a failed allocation. */
  retry?: { reason: string | null };
}

export const queueProvision = (
  tx: Transaction,
  pool: PoolDocument,
  services: PlanServices,
  { workflow_id, allocation, correlation_id, actor, retry }: ProvisionRequest,
  now: Date,
): Promise<void> =>
  queueOperation(
    tx,
    {
      workflow_id,
      kind: nodeProvisionKind,
      revision: 2,
      allocation_id: allocation.allocation_id,
      tenant: allocation.tenant,
      correlation_id,
      actor,
      params: retry ? { retry: true, reason: retry.reason } : {},
      steps: nodeProvisionPlan(pool, services),
    },
    now,
  );
