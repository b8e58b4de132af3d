/** A well-formed request for every route. A route without an example does not compile. */
import { now, systemClock } from '../../../src/base/clock.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import type { Input } from './calls.ts';
import type { TenantFixture } from './tenants.ts';

/**
 * Input for each route. Ids of existing resources are those of the tenant acme. Other ids name
 * nothing, because the server must refuse a caller before it looks for the resource.
 */
export function examplesFor(
  { acme, join_token }: TenantFixture,
  ids: { join_token_id: string; task_id: string },
): Record<OperationName, Input> {
  const allocation = { params: { id: acme.allocation.allocation_id } };
  const node = { params: { id: acme.allocation.node_id ?? '' } };
  const operation = { params: { id: acme.allocation.workflow_id ?? '' } };
  const pool = { params: { pool: 'outside' } };
  const residue = { params: { id: 'res_none' }, body: { reason: 'test' } };
  const task = { params: { id: 'task_none' } };
  return {
    'health-get': {},
    'readiness-get': {},
    'metrics-get': {},
    'agent-bundle': {},
    'settings-get': {},
    'server-status': {},
    'log-level-set': { body: { level: 'info', for_seconds: 60 } },
    'restoration-get': {},
    'restoration-differences': {},
    'restoration-end': { body: { reason: 'x' } },
    'overview-get': {},
    'session-create': { body: { token: 'swt_wrong' } },
    'session-get': {},
    'session-delete': {},
    'session-list': {},
    'session-revoke': { params: { id: 'sess_none' } },
    'token-create': { body: { name: 'made', role: 'viewer' } },
    'token-list': {},
    'token-delete': { params: { id: 'tok_none' } },
    'pool-put': { params: { pool: 'fresh' }, body: { driver: 'external' } },
    'pool-get': pool,
    'pool-list': {},
    'pool-delete': pool,
    'pool-boots': pool,
    'pool-what-if': { ...pool, body: { budget_seconds: 600 } },
    'pool-budget': { ...pool, body: { budget_seconds: 600, reason: 'boots take longer' } },
    'secret-put': { params: { name: 'made' }, body: { value: 'a value that is kept' } },
    'secret-list': {},
    'secret-rotate': {},
    'secret-delete': { params: { name: 'made' } },
    'join-token-create': { ...pool, body: {} },
    'join-token-list': pool,
    'join-token-delete': { params: { pool: 'outside', id: ids.join_token_id } },
    'allocation-create': { body: { pool: 'outside', name: 'more' } },
    'allocation-list': {},
    'allocation-get': allocation,
    'allocation-certificate': allocation,
    'allocation-release': allocation,
    'allocation-retry': allocation,
    'allocation-actions': allocation,
    'allocation-act': {
      params: { ...allocation.params, action: 'release' },
      body: { reason: 'test', dry_run: true },
    },
    'node-create': { body: { pool: 'outside' } },
    'node-list': {},
    'fleet-get': {},
    'fleet-count': {},
    'node-get': node,
    'node-state': { ...node, query: { at: now(systemClock).toISOString() } },
    'node-explain': node,
    'node-actions': node,
    'node-act': {
      params: { id: node.params.id, action: 'extend-deadline' },
      body: { reason: 'test', seconds: 60, dry_run: true },
    },
    'evidence-create': {
      body: {
        facts: [
          {
            layer: 'transport',
            kind: 'ingress.refused',
            summary: 'the ingress answered 502',
            allocation_id: acme.allocation.allocation_id,
          },
        ],
      },
    },
    'sweep-list': {},
    'brake-get': {},
    'brake-resume': { body: { reason: 'test' } },
    'maintenance-list': {},
    'maintenance-put': {
      params: { name: 'fresh' },
      body: { zone: 'nowhere', ends_at: '2099-01-01T00:00:00Z', reason: 'test' },
    },
    'maintenance-delete': { params: { name: 'nothing' } },
    'drift-list': {},
    'store-verify': {},
    'drift-repair': { params: { id: 'find_none' }, body: { reason: 'test' } },
    'drift-accept': { params: { id: 'find_none' }, body: { reason: 'test' } },
    'policy-replay': { body: { policy: [{ name: 'outside', budgets: { provision_seconds: 600 } }] } },
    'residue-list': {},
    'residue-adopt': residue,
    'residue-delete': residue,
    'residue-verify': residue,
    'node-checkup': node,
    'node-ping': { ...node, body: { within_seconds: 1 } },
    'node-ping-get': { params: { ...node.params, task_id: ids.task_id } },
    'node-timeline': node,
    'node-logs': node,
    'node-boot': node,
    'operation-list': {},
    'operation-get': operation,
    'operation-cancel': operation,
    'operation-retry': operation,
    'fleet-recover': { body: { action: 'retry-release', filter: {}, reason: 'test' } },
    'thing-find': { query: { id: acme.allocation.allocation_id } },
    'timeline-get': { query: { allocation_id: acme.allocation.allocation_id } },
    'audit-list': {},
    'evidence-verify': {},
    'evidence-export': {},
    'key-list': {},
    'task-key-rotate': {},
    'stream-open': { query: { cursor: '0-0' } },
    'agent-register': { body: { join_token: `${join_token}x`, name: 'stranger', version: '1' } },
    'agent-heartbeat': { body: { status: 'stopping' } },
    'agent-heartbeats': { body: { beats: [{ credential: 'swc_wrong', status: 'stopping' }] } },
    'agent-stream': {},
    'agent-task-next': {},
    'agent-task-progress': { ...task, body: {} },
    'agent-task-result': { ...task, body: { status: 'succeeded' } },
    'agent-logs': {},
    'agent-boot': { body: { stages: [{ name: 'more', seconds: 1 }] } },
    'agent-prerequisites': { body: { results: [{ name: 'more', ok: true }] } },
    'agent-evidence': {
      body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'node', kind: 'more', summary: 'more' }] },
    },
    'agent-credential-rotate': {},
    'agent-credential-reissue': {
      body: {
        node_instance_id: acme.machine.node_instance_id,
        credential_sha256: '0'.repeat(64),
        signed_at: '2030-01-01T00:00:00Z',
        signature: `${'A'.repeat(86)}==`,
      },
    },
    'agent-task-keys': {},
    'agent-checkup': {},
    'agent-ping': { body: { within_seconds: 1 } },
    'agent-ping-get': { params: { task_id: ids.task_id } },
  };
}
