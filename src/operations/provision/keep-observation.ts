/**
 * Records the state that the provider shows while a machine comes up: on its row, in evidence, and
 * as an advance of its boot.
 */
import { now } from '../../base/clock.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { noteAdvance } from '../../store/transitions/advance.ts';
import { amendNode } from '../../store/transitions/amend-node.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';

/** A state that the provider had not shown before is advance. */
export async function keepObservation(services: OperationServices, subject: Subject, state: string): Promise<void> {
  if (subject.node.observed_state === state) return;
  const at = now(services.clock);
  await services.db.transaction(async (tx) => {
    const node = await lockNode(tx, subject.node.node_id);
    if (node?.node_instance_id !== subject.node_instance_id || node.observed_state === state) return;
    const observed = { observed_state: state, observed_at: at };
    const summary = `the provider shows it as ${state}`;
    const amended = await amendNode(tx, node, observed, { at, layer: 'provider', kind: 'node.observed', summary });
    await noteAdvance(tx, amended, [{ kind: 'provider_state', code: state }], at, services.environment);
  });
}
