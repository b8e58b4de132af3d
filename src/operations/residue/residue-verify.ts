/** Verifies whether residue still exists: asks the driver and, for a reused machine, its agent. */
import { now } from '../../base/clock.ts';
import type { KnownIds, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Driver, DriverTarget } from '../../drivers/driver.ts';
import { type OperationContext, type OperationDefinition, StepFailed } from '../../engine/engine.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { recordInspection, settleResidue } from '../../store/rows/residue.ts';
import { type ResidueWithMachine, readResidueWithMachine } from '../../store/supervision/orphans.ts';
import { type ProofResult, proofSummary, proveByAgent, proveIfPossible } from '../release/proof.ts';
import { retireProvenGone } from '../release/proven-gone.ts';
import { retryWhileUnavailable } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import { readSubject } from '../runtime/subject.ts';

/**
 * A residue entry and its machine as a driver target. The rows of node and instance may be missing.
 */
export interface ResidueSubject {
  row: ResidueWithMachine;
  /**
   * Null if this server lacks the driver, or the entry names no instance. Then nothing can be
   * inspected or destroyed.
   */
  machine: { driver: Driver; target: DriverTarget; node_instance_id: NodeInstanceId; ids: KnownIds } | null;
}

/** The driver state of the instance or, without its row, the host that can see the resource. */
const stateOf = ({ driver_state, host }: ResidueWithMachine) => driver_state ?? (host ? { host_id: host } : {});

export function buildResidueSubject(services: OperationServices, row: ResidueWithMachine): ResidueSubject {
  const driver = services.drivers.get(row.driver);
  const { node_id, node_instance_id, correlation_id, allocation_id, workflow_id } = row;
  if (!driver || !node_instance_id) return { row, machine: null };
  const target: DriverTarget = {
    installation_id: services.installation.installation_id,
    pool: row.pool ?? '',
    node_id: node_id ?? ('' as NodeId),
    node_instance_id,
    name: row.node_name ?? row.resource,
    zone: row.zone,
    spec: row.document?.spec ?? {},
    workflow_id,
    correlation_id,
    state: stateOf(row),
  };
  return {
    row,
    machine: { driver, target, node_instance_id, ids: { node_id, node_instance_id, correlation_id, allocation_id } },
  };
}

export async function readResidueSubject(services: OperationServices, residue_id: string): Promise<ResidueSubject> {
  const row = await retryWhileUnavailable(services.clock, () => readResidueWithMachine(services.db, residue_id));
  if (!row) throw new Error(`residue ${residue_id} is not on the ledger`);
  return buildResidueSubject(services, row);
}

export const residueVerifyKind = 'residue-verify';

export const residueVerifyPlan: PlanStep[] = [
  { name: 'look', label: 'Checking whether it still exists', usual_seconds: 1, within_seconds: 300 },
];

/**
 * For an external machine the driver's proof is the revoked credential. That counts only when the
 * node is retired, because a machine in the fleet may still hold the residue.
 */
export const canDriverProve = ({ row, machine }: ResidueSubject): boolean =>
  machine?.driver.final_proof !== 'revoked' || row.present_instance_id === null;

export const onlyAgentMayProve = 'its machine is still in the fleet; only its agent can prove it clean';

/**
 * Only a machine that is still in the fleet can be cleaned in place. That is the node's current
 * instance or, for an external machine, any of its instances.
 */
export const canBeProvenClean = ({ row, machine }: ResidueSubject): boolean =>
  row.why === 'force-release' &&
  row.document !== null &&
  reusesNodes(row.document) &&
  (row.present || (machine !== null && !machine.driver.launches && row.present_instance_id !== null));

export const residueIdOf = (params: unknown): string => (params as { residue_id: string }).residue_id;

async function verify(
  context: OperationContext,
  services: OperationServices,
  residue: ResidueSubject,
): Promise<ProofResult> {
  const { row, machine } = residue;
  if (!machine) return { proof: null, why_not: `the resource cannot be inspected: ${inspectionObstacle(residue)}` };
  const shouldAskDriver = await context.step('look:where', async () => canDriverProve(residue));
  const result: ProofResult = shouldAskDriver
    ? await proveIfPossible(context, services, 'look:driver', machine)
    : { proof: null, why_not: onlyAgentMayProve };
  const shouldAskAgent = await context.step(
    'look:stays',
    async () => canBeProvenClean(residue) && row.node_id !== null,
  );
  if (result.proof || !shouldAskAgent || !row.node_id) return result;
  const ids = {
    workflow_id: context.workflow_id,
    correlation_id: row.correlation_id,
    allocation_id: row.allocation_id,
  };
  const subject = await readSubject(services, services.db, row.node_id, ids);
  try {
    const { proof, problem } = await proveByAgent(
      context,
      services,
      'look:agent',
      subject,
      { unreachable: false },
      { reuse: true },
    );
    if (proof) return { proof };
    return problem ? { proof: null, why_not: problem.message } : result;
  } catch (error) {
    if (error instanceof StepFailed) return { proof: null, why_not: error.message };
    throw error;
  }
}

const inspectionObstacle = ({ row }: ResidueSubject): string =>
  row.node_instance_id ? `this server has no driver ${row.driver}` : 'the entry names no instance of ours';

export function residueVerify(services: OperationServices): OperationDefinition {
  return {
    kind: residueVerifyKind,
    revision: 1,
    async run(context, params) {
      const residue = await readResidueSubject(services, residueIdOf(params));
      const { residue_id } = residue.row;
      await stage(context, services, 'look', async () => {
        const result = await verify(context, services, residue);
        await context.step('look:kept', () => {
          const at = now(services.clock);
          return runOnce(services.db, context.workflow_id, 'kept', services.executor, at, async (tx, operation) => {
            const source = { layer: 'workflow', actor: operation.actor, workflow_id: operation.workflow_id } as const;
            if (!result.proof) await recordInspection(tx, residue_id, result.why_not, source, at);
            else {
              const { node_id, node_instance_id } = residue.row;
              const gone = { node_id, node_instance_id, proof: result.proof.kind, reason: 'proven gone' };
              // All code locks the node before the residue, so that two transactions cannot
              // deadlock.
              await retireProvenGone(tx, services, { ...gone, ...source }, at);
              const proven = { status: 'gone' as const, seen: proofSummary(result.proof), proof: { ...result.proof } };
              await settleResidue(tx, node_instance_id ? { node_instance_id } : { residue_id }, proven, source, at);
            }
            return null;
          });
        });
        await context.emit({ message: result.proof ? 'Gone' : `Not proven gone: ${result.why_not}` });
      });
      return null;
    },
  };
}
