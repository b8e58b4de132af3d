/**
 * Applies one action to many machines: to the canary first, then to the others at a limited rate.
 * Stops after too many failures.
 */
import { now } from '../../base/clock.ts';
import {
  type Json,
  OperationCancelled,
  type OperationContext,
  type OperationDefinition,
  StepFailed,
} from '../../engine/engine.ts';
import type { RecoveryPhase } from '../../lifecycle/actions/recovery.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { runOnce } from '../../store/operations/executions.ts';
import {
  chooseTargets,
  countTargets,
  listTargetsInState,
  skipTargets,
  type Tally,
  type TargetRow,
} from '../../store/operations/recoveries.ts';
import type { OperationServices } from '../runtime/services.ts';
import { stage } from '../runtime/stage.ts';
import {
  incompleteMessage,
  maxNamed,
  progressMessage,
  progressParts,
  type RecoveryOrder,
  type Round,
  recoveryRound,
  stopMessage,
} from './recovery-round.ts';

export const fleetRecoverKind = 'fleet-recover';

async function describeFailure(
  context: OperationContext,
  services: OperationServices,
  step: string,
  code: string,
  render: (tally: Tally, failed: TargetRow[]) => string,
): Promise<StepFailed> {
  const summary = await context.step(`${step}:account`, async () => {
    const tally = await countTargets(services.db, context.workflow_id);
    const state = tally.failed > 0 ? 'failed' : 'skipped';
    const failed = await listTargetsInState(services.db, context.workflow_id, state, maxNamed);
    return { message: render(tally, failed), owner_layer: failed[0]?.owner_layer ?? 'workflow' };
  });
  return new StepFailed({ step, code, tries: 1, ...summary });
}

async function runPhase(
  context: OperationContext,
  services: OperationServices,
  order: RecoveryOrder,
  phase: RecoveryPhase,
): Promise<void> {
  let tally: Tally | undefined;
  for (;;) {
    const previous = tally;
    const round = (await context.step(
      `${phase}:round`,
      async () => (await recoveryRound(context, services, order, phase, previous)) as unknown as Json,
    )) as unknown as Round;
    tally = round.tally;
    if (round.over && round.stop)
      throw await describeFailure(context, services, phase, 'recovery_stopped', (...facts) =>
        stopMessage(phase, ...facts),
      );
    if (round.over) return;
    await context.sleep(round.wait_seconds);
  }
}

/**
 * Skips the remaining targets after an early end. Operations that already run are not cancelled.
 */
async function skipRemaining(context: OperationContext, services: OperationServices, error: unknown): Promise<void> {
  const why =
    error instanceof OperationCancelled ? 'the recovery was cancelled' : 'the recovery stopped before its turn';
  await context.step('leave', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'leave', services.executor, at, async (tx, operation) => {
      const reasons = { waiting: why, acting: 'was under way when the recovery ended; its own operation continues' };
      await skipTargets(tx, context.workflow_id, reasons, at);
      const tally = await countTargets(tx, context.workflow_id);
      const { workflow_id, correlation_id } = operation;
      const summary = `${why}: ${tally.recovered} recovered, ${tally.failed} failed, ${tally.skipped} skipped`;
      const failure = error instanceof StepFailed ? { error: error.message } : {};
      await recordEvidence(tx, [
        {
          at,
          layer: 'workflow',
          kind: 'recovery.stopped',
          summary,
          data: { ...tally, ...failure },
          workflow_id,
          correlation_id,
        },
      ]);
      return null;
    });
  });
}

async function conclude(context: OperationContext, services: OperationServices): Promise<void> {
  const tally = (await context.step('conclude:count', async () => ({
    ...(await countTargets(services.db, context.workflow_id)),
  }))) as Tally;
  // A recovery that skipped every target is incomplete too.
  const hasSkippedAll = tally.recovered === 0 && tally.skipped > 0;
  if (tally.failed > 0 || hasSkippedAll)
    throw await describeFailure(context, services, 'conclude', 'recovery_incomplete', incompleteMessage);
  await context.emit({ message: progressMessage('rest', tally), parts: progressParts(tally) } as unknown as Json);
}

export function fleetRecover(services: OperationServices): OperationDefinition {
  return {
    kind: fleetRecoverKind,
    revision: 1,
    async run(context, params) {
      const order = params as unknown as RecoveryOrder;
      try {
        await stage(context, services, 'select', async () => {
          await context.step('select:choose', () => {
            const at = now(services.clock);
            return runOnce(services.db, context.workflow_id, 'choose', services.executor, at, (tx) =>
              chooseTargets(tx, context.workflow_id, order.action, order.filter, at),
            );
          });
        });
        await stage(context, services, 'canary', () => runPhase(context, services, order, 'canary'));
        await stage(context, services, 'rest', () => runPhase(context, services, order, 'rest'));
        await stage(context, services, 'conclude', () => conclude(context, services));
        return null;
      } catch (error) {
        await skipRemaining(context, services, error);
        throw error;
      }
    },
  };
}
