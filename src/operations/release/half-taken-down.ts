/**
 * A machine whose taking down ended before its proof, where no allocation owns that: half taken down it is nobody's to use. It is set
 * aside, with the step and the owner of what went wrong, for a person to take it down again.
 */
import { now } from '../../base/clock.ts';
import { OperationCancelled, type OperationContext, StepFailed } from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import { stageOf } from '../runtime/stage.ts';
import type { Subject } from '../runtime/subject.ts';

/** Whether the node still stands where this operation brought it; a rule or a person may have decided otherwise meanwhile. */
export const isOurs = (node: NodeRow | undefined, workflow_id: string): node is NodeRow =>
  node?.status === 'cleaning' && node.workflow_id === workflow_id;

/** Who has to see to it, and in words why. An operation stops on a person's word, or because a step of it is overdue, which is then on its row. */
function blameOf(doing: string, error: unknown, { error: overdue }: Pick<OperationRow, 'error'>) {
  if (error instanceof StepFailed) {
    const { step, code, owner_layer, tries, message } = error;
    const reason = `${doing} failed at step ${stageOf(step)} (owner ${owner_layer}): ${message}`;
    return { reason, data: { step, code, owner_layer, tries } };
  }
  const ended = (because: string, owner_layer: string) => ({
    reason: `${doing} did not end: ${because}`,
    data: { owner_layer },
  });
  if (!(error instanceof OperationCancelled)) return ended(String(error), 'control_plane');
  return overdue ? ended(overdue.message, overdue.owner_layer) : ended('it was asked to stop', 'operator');
}

export async function setAsideHalfTakenDown(
  context: OperationContext,
  services: OperationServices,
  { node: { node_id }, node_instance_id, ids }: Subject,
  doing: string,
  error: unknown,
): Promise<void> {
  const { workflow_id } = context;
  await context.step('set-aside', () => {
    const at = now(services.clock);
    return runOnce(services.db, workflow_id, 'set-aside', services.executor, at, async (tx, operation) => {
      if (!isOurs(await lockNode(tx, node_id), workflow_id)) return null;
      const { reason, data } = blameOf(doing, error, operation);
      const move = {
        node_id,
        node_instance_id,
        to: 'quarantined',
        by: 'clean-error',
        reason,
        data,
        workflow_id,
      } as const;
      requireMoved(await transition(tx, [move], at, services.environment));
      await fenceInstance(tx, node_instance_id, { ...ids, workflow_id, reason, revoke: true }, at);
      return null;
    });
  });
}
