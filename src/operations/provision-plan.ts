/** What bringing a machine up consists of, as a person sees it. */
import type { AllocationId, CorrelationId, WorkflowId } from '../base/ids.ts';
import type { Actor } from '../contract/evidence.ts';
import type { PoolDocument } from '../contract/pool.ts';
import type { Transaction } from '../store/database.ts';
import { budgetOf, type DoorEnvironment } from '../store/door-rules.ts';
import { queueOperation } from '../store/queue-operation.ts';
import type { OperationServices } from './services.ts';
import type { PlanStep } from './stage.ts';

export const nodeProvisionKind = 'node-provision';

/** The rule on the row decides first; the step's own deadline is for what that rule cannot see. */
const slackSeconds = 60;

const queueSeconds = (pool: PoolDocument, environment: DoorEnvironment) =>
  budgetOf('queue', pool, environment, null).seconds;

type Planning = Pick<OperationServices, 'environment' | 'drivers'>;

/** It waits for the provider no longer than its queue and a doubled boot. */
export function bringUpPlan(pool: PoolDocument, { environment, drivers }: Planning): PlanStep[] {
  const provision = budgetOf('provision', pool, environment, null).seconds;
  const within_seconds = queueSeconds(pool, environment) + 2 * provision + slackSeconds;
  const phases = drivers.get(pool.driver)?.plan(pool.spec ?? {}) ?? [];
  const launch: Omit<PlanStep, 'within_seconds'>[] =
    phases.length > 1
      ? phases.map(({ phase, label, usual_seconds }) => ({ name: `launch:${phase}`, label, usual_seconds }))
      : [{ name: 'launch', label: 'Launching', usual_seconds: 0.5 }];
  return [
    ...launch.map((step) => ({ ...step, within_seconds })),
    { name: 'register', label: 'Waiting for it to register', usual_seconds: 2, within_seconds: null },
    { name: 'start', label: 'Starting up', usual_seconds: 1, within_seconds: null },
  ];
}

export const bringUpStages = ['launch', 'register', 'start'] as const;

/** A try waits for room no longer than the queue's budget. */
function nodeProvisionPlan(pool: PoolDocument, services: Planning): PlanStep[] {
  const within_seconds = queueSeconds(pool, services.environment) + slackSeconds;
  return [
    { name: 'assign', label: 'Finding a machine', usual_seconds: 0.5, within_seconds },
    ...bringUpPlan(pool, services),
  ];
}

export interface AskedProvision {
  workflow_id: WorkflowId;
  allocation: { allocation_id: AllocationId; tenant: string };
  correlation_id: CorrelationId;
  actor: Actor | null;
  /** Another try of an allocation that failed. */
  retry?: { reason: string | null };
}

/** Queues the operation that brings a machine up for an allocation. */
export const queueProvision = (
  tx: Transaction,
  pool: PoolDocument,
  services: Planning,
  { workflow_id, allocation, correlation_id, actor, retry }: AskedProvision,
  now: Date,
): Promise<void> =>
  queueOperation(
    tx,
    {
      workflow_id,
      kind: nodeProvisionKind,
      revision: 1,
      allocation_id: allocation.allocation_id,
      tenant: allocation.tenant,
      correlation_id,
      actor,
      params: retry ? { retry: true, reason: retry.reason } : {},
      steps: nodeProvisionPlan(pool, services),
    },
    now,
  );
