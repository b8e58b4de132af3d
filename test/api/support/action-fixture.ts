/** A server with one node and one allocation, which a test puts into any pair of statuses. */
import type { Node } from '../../../src/contract/node.ts';
import type { ActionSubject } from '../../../src/lifecycle/actions/actions.ts';
import type { AllocationStatus, NodeStatus } from '../../../src/lifecycle/model/states.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';

export interface SubjectStatuses {
  node: NodeStatus;
  allocation: AllocationStatus;
  /** Whether the allocation holds the node. */
  bound: boolean;
  /** Whether the optional fields are set: a deadline, a held verdict and an address. */
  hasOptionalFields: boolean;
}

export interface ActionFixture {
  server: TestServer;
  db: DatabaseConnection;
  node_id: string;
  allocation_id: string;
  tenant_token: string;
  viewer_token: string;
  setStatuses(statuses: SubjectStatuses): Promise<void>;
  readNode(): Promise<Node>;
  /** Builds the input of the action tables from the node that the API returns. */
  readSubject(allocation: AllocationStatus): Promise<ActionSubject>;
  stop(): Promise<void>;
}

const heldVerdict = {
  rule: 'liveness',
  to: 'failed',
  kind: 'mass-failure',
  hold: 'hold_1',
  reason: 'many at once',
  since: '2026-01-01T00:00:00.000Z',
  held_until: '2026-01-01T01:00:00.000Z',
};
export const farDeadline = '2099-01-01T00:00:00.000Z';

export async function openActionFixture(): Promise<ActionFixture> {
  // Without sweeps, no status changes by itself.
  const server = await inProcessServer({ composition: { sweeps: () => [] } });
  const db = await openDatabaseConnection(server.database_url);
  const { client } = server;
  await client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external' } });
  const { node_id } = (await client.call('node-create', { body: { pool: 'outside' } })).node;
  const tenant = await client.call('token-create', { body: { name: 'acme', role: 'operator', tenant: 'acme' } });
  const tenant_token = tenant.token ?? '';
  const viewer_token = (await client.call('token-create', { body: { name: 'reader', role: 'viewer' } })).token ?? '';
  const createReply = await server.as(tenant_token).call('allocation-create', { body: { pool: 'outside' } });
  const { allocation_id } = createReply.allocation;
  const readNode = () => client.call('node-get', { params: { id: node_id } });
  return {
    server,
    db,
    node_id,
    allocation_id,
    tenant_token,
    viewer_token,
    readNode,
    async setStatuses({ node, allocation, bound, hasOptionalFields }) {
      await db.query('update nodes set status = $2, deadline_at = $3, held = $4, endpoint = $5 where node_id = $1', [
        node_id,
        node,
        hasOptionalFields ? farDeadline : null,
        hasOptionalFields ? heldVerdict : null,
        hasOptionalFields ? 'http://127.0.0.1:1' : null,
      ]);
      await db.query('update allocations set status = $2, node_id = $3, deadline_at = $4 where allocation_id = $1', [
        allocation_id,
        allocation,
        bound ? node_id : null,
        hasOptionalFields ? farDeadline : null,
      ]);
    },
    async readSubject(allocation) {
      const node = await readNode();
      return {
        ...node,
        allocation_status: node.allocation_id === null ? null : allocation,
        instance_fenced: null,
        taken_down_by: null,
        external: node.pool !== 'local',
        reuse: node.pool !== 'local',
      };
    },
    async stop() {
      await db.close();
      await server.stop();
    },
  };
}
