/** A machine that no agent speaks for: its provider finished it, and its provider says when it is ready. */
import { now } from '../../base/clock.ts';
import type { DriverDone } from '../../drivers/driver.ts';
import type { OperationContext } from '../../engine/engine.ts';
import { registerAgentless } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { holdStarting, unholdStarting } from '../../store/supervision/agentless-machines.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { keepObservation } from './keep-observation.ts';

/** The provider is done, and no agent is expected: from here on what it shows counts. */
export async function ensured(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
  { message, endpoint }: DriverDone,
): Promise<void> {
  await context.step('launch:ensured', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'ensured', services.executor, at, async (tx) => {
      const move: NodeMove = {
        ...subject.ids,
        node_id: subject.node.node_id,
        node_instance_id: subject.node_instance_id,
        from: ['provisioning'],
        to: 'starting',
        by: 'ensured',
        reason: message,
        set: { registered_at: at, reported_status: 'starting', ...(endpoint && { endpoint }) },
      };
      const [outcome] = await transition(tx, [move], at, services.environment);
      if (outcome?.moved) await registerAgentless(tx, subject.node_instance_id, at);
      return null;
    });
  });
}

/** Looks once; what its provider shows as ready is ready. Repeating it changes nothing. */
export async function promoteIfReady(services: OperationServices, subject: Subject): Promise<void> {
  const { state, detail, ready, unseen } = await subject.driver.observe(subject.target);
  const at = now(services.clock);
  if (unseen) return holdStarting(services.db, subject.node, detail ?? 'it cannot be seen from here', at);
  await keepObservation(services, subject, state);
  if (!ready) return unholdStarting(services.db, subject.node, at);
  const move: NodeMove = {
    node_id: subject.node.node_id,
    node_instance_id: subject.node_instance_id,
    from: ['starting'],
    to: 'ready',
    by: 'upstream-ready',
    reason: `its provider shows it as ${state}${detail ? ` (${detail})` : ''}`,
    set: { reported_status: 'ready' },
  };
  const outcomes = await services.db.transaction((tx) => transition(tx, [move], at, services.environment));
  requireMoved(outcomes, 'already_there', 'status_moved_on', 'instance_fenced', 'observed');
}
