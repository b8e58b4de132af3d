/** What an entry of the residue ledger is about, as its driver wants it told. Its node and instance may be long gone, or never have been. */
import type { KnownIds, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Driver, DriverTarget } from '../../drivers/driver.ts';
import { type ResidueWithMachine, residueWithMachine } from '../../store/supervision/orphans.ts';
import { steadily } from '../runtime/retry-while-unavailable.ts';
import type { OperationServices } from '../runtime/services.ts';

export interface ResidueSubject {
  row: ResidueWithMachine;
  /** Null where this server has no such driver, or where the entry names no instance: then nobody can look or destroy by tag. */
  machine: { driver: Driver; target: DriverTarget; node_instance_id: NodeInstanceId; ids: KnownIds } | null;
}

/** What the driver kept of the instance; of one we have no row of, at least which host can see it. */
const stateOf = ({ driver_state, host }: ResidueWithMachine) => driver_state ?? (host ? { host_id: host } : {});

export function residueSubject(services: OperationServices, row: ResidueWithMachine): ResidueSubject {
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
  const row = await steadily(services.clock, () => residueWithMachine(services.db, residue_id));
  if (!row) throw new Error(`residue ${residue_id} is not on the ledger`);
  return residueSubject(services, row);
}
