/** The calls that most tests make: declare a pool, allocate, release, wait for a status. */
import type { Allocation } from '../../src/contract/allocation.ts';
import type { Client } from '../../src/contract/client.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import type { AllocationStatus } from '../../src/lifecycle/model/states.ts';
import { until } from './until.ts';

/** Generous enough for a loaded machine; a wait that takes longer is a bug. */
const patientSeconds = 110;

export async function declarePool(client: Client, pool: string, document: Partial<PoolDocument> = {}): Promise<void> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'local', ...document } });
}

export async function allocate(client: Client, pool: string): Promise<string> {
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  return allocation.allocation_id;
}

export const readAllocation = (client: Client, id: string): Promise<Allocation> =>
  client.call('allocation-get', { params: { id } });

export const release = (client: Client, id: string) => client.call('allocation-release', { params: { id } });

export async function waitForStatus(
  client: Client,
  id: string,
  status: AllocationStatus,
  seconds = patientSeconds,
): Promise<Allocation> {
  let last: Allocation | undefined;
  try {
    return await until(
      status,
      async () => {
        last = await readAllocation(client, id);
        return last.status === status ? last : undefined;
      },
      { seconds },
    );
  } catch (error) {
    throw new Error(`allocation ${id} did not become ${status}; it is ${last?.status}: ${last?.reason}`, {
      cause: error,
    });
  }
}

export const waitForStatuses = (
  client: Client,
  ids: string[],
  status: AllocationStatus,
  seconds = patientSeconds,
): Promise<Allocation[]> => Promise.all(ids.map((id) => waitForStatus(client, id, status, seconds)));
