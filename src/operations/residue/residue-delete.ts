/**
 * Destroys the resources of a residue entry and proves them gone. Only a person can request this.
 */
import { now } from '../../base/clock.ts';
import type { OperationDefinition } from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { settleResidue } from '../../store/rows/residue.ts';
import { proofSummary, proveByDriver } from '../release/proof.ts';
import { retireProvenGone } from '../release/proven-gone.ts';
import { releasePolicy } from '../release/release-policy.ts';
import type { OperationServices } from '../runtime/services.ts';
import { drive, type PlanStep, stage } from '../runtime/stage.ts';
import { readResidueSubject, residueIdOf } from './residue-verify.ts';

export const residueDeleteKind = 'residue-delete';

export const residueDeletePlan: PlanStep[] = [
  { name: 'cut-off', label: 'Revoking its credential', usual_seconds: 0.5, within_seconds: 300 },
  { name: 'destroy', label: 'Destroying its resources', usual_seconds: 1, within_seconds: 3600 },
  { name: 'prove', label: 'Proving that nothing is left', usual_seconds: 0.5, within_seconds: 900 },
];

export function residueDelete(services: OperationServices): OperationDefinition {
  return {
    kind: residueDeleteKind,
    revision: 1,
    async run(context, params) {
      const { row, machine } = await readResidueSubject(services, residueIdOf(params));
      if (!machine)
        throw new Error(`residue ${row.residue_id} names nothing that a driver of this replica could destroy`);
      const { driver, target, node_instance_id } = machine;
      const policy = releasePolicy({ name: row.pool ?? '', driver: row.driver, ...row.document });
      // Revoke the credential first, so that the machine cannot report while it is destroyed. For
      // an external machine, which is not destroyed, this is the whole deletion.
      await stage(context, services, 'cut-off', async () => {
        await context.step('cut-off:fence', () => {
          const at = now(services.clock);
          return runOnce(services.db, context.workflow_id, 'cut-off', services.executor, at, async (tx) => {
            const ids = { ...machine.ids, workflow_id: context.workflow_id };
            await fenceInstance(tx, node_instance_id, { ...ids, reason: 'deleted as residue', revoke: true }, at);
            return null;
          });
        });
      });
      await stage(context, services, 'destroy', async () => {
        await drive(context, services, 'destroy:driver', () => driver.destroy(target), { policy, subject: machine });
      });
      await stage(context, services, 'prove', async () => {
        const proof = await proveByDriver(context, services, 'prove', machine, driver.final_proof, policy);
        await context.step('prove:settle', () => {
          const at = now(services.clock);
          return runOnce(services.db, context.workflow_id, 'settle', services.executor, at, async (tx, operation) => {
            const reason = typeof operation.params.reason === 'string' ? operation.params.reason : 'deleted';
            const proven = { status: 'gone' as const, seen: proofSummary(proof), reason, proof: { ...proof } };
            const source = { layer: 'operator', actor: operation.actor, workflow_id: operation.workflow_id } as const;
            const gone = { node_id: row.node_id, node_instance_id, proof: proof.kind, reason: 'proven gone' };
            // All code locks the node before the residue, so that two transactions cannot deadlock.
            await retireProvenGone(tx, services, { ...gone, ...source }, at);
            await settleResidue(tx, { node_instance_id }, proven, source, at);
            return null;
          });
        });
      });
      await context.emit({ message: 'Deleted, and proven gone' });
      return null;
    },
  };
}
