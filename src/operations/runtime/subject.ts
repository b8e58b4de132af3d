/** Reads what an operation works on: its own row, and the node, instance, pool and driver. */
import type { Clock } from '../../base/clock.ts';
import type { CorrelationId, KnownIds, NodeInstanceId, WorkflowId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { Driver, DriverState, DriverTarget } from '../../drivers/driver.ts';
import type { OperationContext } from '../../engine/engine.ts';
import { type InstanceRow, instanceRow } from '../../store/agents/instances.ts';
import { hasHadMachine } from '../../store/operations/open-operations.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { readOperationRow } from '../../store/operations/operations.ts';
import type { Queryable, Transaction } from '../../store/pg/database.ts';
import { type NodeRow, nodeRow } from '../../store/rows/nodes.ts';
import { readGenerationDocument } from '../../store/rows/pools.ts';
import { retryWhileUnavailable, withTimeout } from './bounded-calls.ts';
import type { OperationServices } from './services.ts';

export async function readAllocationOperation(
  services: OperationServices,
  context: OperationContext,
): Promise<OperationRow & { allocation_id: NonNullable<OperationRow['allocation_id']> }> {
  const row = await retryWhileUnavailable(services.clock, () => readOperationRow(services.db, context.workflow_id));
  if (!row?.allocation_id) throw new Error(`operation ${context.workflow_id} has no allocation`);
  return { ...row, allocation_id: row.allocation_id };
}

export const idsOf = ({ workflow_id, correlation_id, allocation_id }: OperationRow) => ({
  workflow_id,
  correlation_id,
  allocation_id,
});

/**
 * The reason for a release without a teardown: the allocation never had a machine, or the machine
 * is already gone.
 */
export const reasonWithoutTeardown = async (
  tx: Transaction,
  { allocation_id }: Pick<OperationRow, 'allocation_id'>,
): Promise<string> =>
  allocation_id && (await hasHadMachine(tx, allocation_id))
    ? 'its machine was already gone, so there was nothing to tear down'
    : 'the allocation never had a machine';

export interface Subject {
  node: NodeRow;
  instance: InstanceRow;
  node_instance_id: NodeInstanceId;
  pool: PoolDocument;
  driver: Driver;
  target: DriverTarget;
  ids: KnownIds;
}

/** An instance that an operation replaces, and the pool generation it was made from. */
export interface FormerInstance {
  node_instance_id: NodeInstanceId;
  pool_generation: number;
}

/** Reads the subject with the node's current instance, or with `former` and its pool generation. */
export async function readSubject(
  services: OperationServices,
  db: Queryable,
  node_id: string,
  operation: {
    workflow_id: WorkflowId | null;
    correlation_id: CorrelationId | null;
    allocation_id: KnownIds['allocation_id'];
  },
  former?: FormerInstance,
): Promise<Subject> {
  const { node, instance, pool } = await retryWhileUnavailable(services.clock, async () => {
    const node = await nodeRow(db, node_id);
    const instance_id = former?.node_instance_id ?? node?.node_instance_id;
    const instance = instance_id ? await instanceRow(db, instance_id) : undefined;
    const pool = node && (await readGenerationDocument(db, node.pool, former?.pool_generation ?? node.pool_generation));
    return { node, instance, pool };
  });
  if (!node || !instance) throw new Error(`node ${node_id} or its instance is not in the store`);
  const driver = pool && services.drivers.get(pool.driver);
  if (!pool || !driver)
    throw new Error(`the document of pool ${node.pool} (node ${node_id}) or its driver is missing on this replica`);
  return {
    node,
    instance,
    node_instance_id: instance.node_instance_id,
    pool,
    driver,
    target: {
      installation_id: services.installation.installation_id,
      pool: node.pool,
      node_id: node.node_id,
      node_instance_id: instance.node_instance_id,
      name: node.name,
      zone: node.zone,
      spec: pool.spec ?? {},
      workflow_id: operation.workflow_id,
      correlation_id: operation.correlation_id,
      state: instance.driver_state as DriverState,
    },
    ids: {
      node_id: node.node_id,
      node_instance_id: instance.node_instance_id,
      correlation_id: operation.correlation_id,
      allocation_id: operation.allocation_id ?? null,
    },
  };
}

/**
 * Reads the target with the latest driver state. Each driver call must see the state that the
 * previous call saved; otherwise the driver would start its work again.
 */
export async function readCurrentTarget(services: OperationServices, subject: Subject): Promise<DriverTarget> {
  const instance = await instanceRow(services.db, subject.node_instance_id);
  return { ...subject.target, state: (instance?.driver_state as DriverState | undefined) ?? subject.target.state };
}

/**
 * Reads the subject of an operation on a node. The allocation id comes from the operation's params
 * and only labels the evidence.
 */
export async function readSubjectWithParamsAllocation(
  services: OperationServices,
  { workflow_id }: OperationContext,
): Promise<Subject> {
  const operation = await retryWhileUnavailable(services.clock, () => readOperationRow(services.db, workflow_id));
  if (!operation?.node_id) throw new Error(`operation ${workflow_id} has no node`);
  const allocation_id = (operation.params.allocation_id ?? null) as KnownIds['allocation_id'];
  return readSubject(services, services.db, operation.node_id, { ...operation, allocation_id });
}

const inspectTimeoutSeconds = 10;

/**
 * Whether the provider shows the machine as absent or exited. False for machines that we did not
 * launch, and if the provider does not answer.
 */
export async function isMachineGone({ driver, target }: Subject, clock: Clock): Promise<boolean> {
  if (!driver.launches) return false;
  const observed = await withTimeout(clock, inspectTimeoutSeconds, driver.inspect(target));
  return observed !== undefined && (!observed.present || observed.state === 'exited');
}

export const isAgentless = ({ driver }: Pick<Subject, 'driver'>): boolean => driver.supervision === 'agentless';

export const readOperation = async (services: OperationServices, context: OperationContext): Promise<OperationRow> => {
  const row = await retryWhileUnavailable(services.clock, () => readOperationRow(services.db, context.workflow_id));
  if (!row) throw new Error(`operation ${context.workflow_id} is not in the store`);
  return row;
};

/** Reads the subject of an operation. The allocation id comes from the operation's row. */
export async function readOperationSubject(services: OperationServices, context: OperationContext): Promise<Subject> {
  const operation = await readOperation(services, context);
  if (!operation.node_id) throw new Error(`operation ${context.workflow_id} has no node yet`);
  return readSubject(services, services.db, operation.node_id, operation);
}
