/**
 * Records the report of an external watcher that a machine failed to boot, as a diagnosis. If the
 * crash is certain, it also marks the instance as crashed, which ends the operation that waits for
 * the machine. It writes no verdict.
 */
import { now } from '../../base/clock.ts';
import type { CorrelationId, NodeId } from '../../base/ids.ts';
import { type Diagnosis, diagnose } from '../../lifecycle/findings/diagnosis.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { markCrash, recordSigns } from '../../store/transitions/advance.ts';
import { fillAllocationIds } from '../../store/transitions/amend-node.ts';
import type { OperationServices } from '../runtime/services.ts';

export interface BootFailure {
  error: string;
  log_tail: string;
}

const diagnosisOf = ({ error, log_tail }: BootFailure): Diagnosis =>
  diagnose(`${error}\n${log_tail}`) ?? { code: 'bootstrap_failed', says: error, certain: false, line: error };

export function reportBootFailure(
  services: OperationServices,
  node_id: NodeId,
  failure: BootFailure,
  correlation_id: CorrelationId,
): Promise<void> {
  const at = now(services.clock);
  const { code, says, certain, line } = diagnosisOf(failure);
  return services.db.transaction(async (tx) => {
    const node = await lockNode(tx, node_id);
    if (!node?.node_instance_id) return;
    const { node_instance_id, workflow_id, deadline_at } = node;
    const kind = certain ? 'certain_failure' : 'reported_failure';
    const newSigns = await recordSigns(tx, node_instance_id, [{ kind, code }], at);
    if (newSigns.length === 0) return;
    const facts = [
      {
        at,
        layer: 'provider' as const,
        kind: 'bootstrap.diagnosis' as const,
        origin: 'report' as const,
        summary: `its boot watcher reports: ${says}`.slice(0, 1024),
        data: { code, certain, line, ...failure, watching_until: deadline_at },
        node_id,
        node_instance_id,
        workflow_id,
        correlation_id,
      },
    ];
    await fillAllocationIds(tx, facts);
    await recordEvidence(tx, facts);
    if (certain) await markCrash(tx, node_instance_id, { code, message: `${says}: ${line}` }, at);
  });
}
