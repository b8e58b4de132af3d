/**
 * Waits until a reactivated machine is ready, and proves with a ping that tasks reach its agent and
 * answers arrive.
 */
import type { OperationDefinition } from '../../engine/engine.ts';
import type { NewOperation } from '../../store/operations/queue-operation.ts';
import type { OperationServices } from '../runtime/services.ts';
import { awaitReady } from './bring-up.ts';
import { pingPlan, proveByPing } from './ping.ts';

export const nodeReactivateKind = 'node-reactivate';

const steps: NewOperation['steps'] = [
  { name: 'start', label: 'Starting up', usual_seconds: 1, within_seconds: null },
  ...pingPlan,
];

/** The constant part of the operation, which the action `reactivate` queues. */
export const reactivation = { kind: nodeReactivateKind, revision: 1, tenant: null, params: {}, steps };

export function nodeReactivate(services: OperationServices): OperationDefinition {
  return {
    kind: nodeReactivateKind,
    revision: 1,
    async run(context) {
      await awaitReady(context, services);
      await proveByPing(context, services);
      await context.emit({ message: 'Ready; it answered a ping' });
      return null;
    },
  };
}
