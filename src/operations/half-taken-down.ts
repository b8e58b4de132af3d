/**
 * A machine whose taking down ended before its proof, where no allocation owns that: half taken down it is nobody's to use. It is set
 * aside, with the step and the owner of what went wrong, for a person to take it down again.
 */
import { now } from '../base/clock.ts';
import { OperationCancelled, type OperationContext, StepFailed } from '../engine/engine.ts';
import { transition } from '../store/door.ts';
import { once } from '../store/executions.ts';
import { fenceInstance } from '../store/instances.ts';
import { lockNode, type NodeRow } from '../store/nodes.ts';
import type { OperationServices } from './services.ts';
import { stageOf } from './stage.ts';
import type { Subject } from './subject.ts';

/** Whether the node still stands where this operation brought it; a rule or a person may have decided otherwise meanwhile. */
export const isOurs = (node: NodeRow | undefined, workflow_id: string): node is NodeRow =>
  node?.status === 'cleaning' && node.workflow_id === workflow_id;

const whyNot = (doing: string, error: unknown): string =>
  error instanceof StepFailed
    ? `${doing} failed at step ${stageOf(error.step)} (owner ${error.owner_layer}): ${error.message}`
    : `${doing} did not end: ${error instanceof OperationCancelled ? 'it was asked to stop' : String(error)}`;

const blameOf = ({ step, code, owner_layer, tries }: StepFailed) => ({ step, code, owner_layer, tries });

export async function setAsideHalfTakenDown(
  context: OperationContext,
  services: OperationServices,
  { node: { node_id }, node_instance_id, ids }: Subject,
  doing: string,
  error: unknown,
): Promise<void> {
  const { workflow_id } = context;
  const reason = whyNot(doing, error);
  await context.step('set-aside', () => {
    const at = now(services.clock);
    return once(services.db, workflow_id, 'set-aside', services.executor, at, async (tx) => {
      if (!isOurs(await lockNode(tx, node_id), workflow_id)) return null;
      const data = error instanceof StepFailed ? blameOf(error) : {};
      const move = {
        node_id,
        node_instance_id,
        to: 'quarantined',
        by: 'clean-error',
        reason,
        data,
        workflow_id,
      } as const;
      await transition(tx, [move], at, services.environment);
      await fenceInstance(tx, node_instance_id, { ...ids, workflow_id, reason, revoke: true }, at);
      return null;
    });
  });
}
