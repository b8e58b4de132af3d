/** Sample wire objects for tests. samples.test.ts checks them against the contract. */
import type { Allocation } from '../../contract/allocation.ts';
import { type ErrorCode, errorCatalogue } from '../../contract/errors/errors.ts';
import type { Problem } from '../../contract/errors/problem.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { LogLine, Node } from '../../contract/node.ts';
import type { Operation, Step } from '../../contract/operation.ts';
import type { Pool } from '../../contract/pool.ts';
import type { Progress } from '../../contract/progress.ts';

export const sampleIds = {
  node_id: 'node_01k8zq3v7abcdefghjkm',
  node_instance_id: 'inst_01k8zq3v8abcdefghjkm',
  allocation_id: 'alloc_01k8zq3v6abcdefghjkm',
  workflow_id: 'op_01k8zq3v9abcdefghjkm',
  correlation_id: '4bf92f3577b34da6a3ce929d0e0e4736',
} as const;

export const sampleStart = '2026-01-01T12:00:00.000Z';

export const sampleProgress = (fields: Partial<Progress> = {}): Progress => ({
  workflow_id: sampleIds.workflow_id,
  kind: 'node-provision',
  status: 'running',
  phase: 'launch',
  label: 'Launching',
  step: 1,
  total_steps: 3,
  percent: 10,
  message: '',
  started_at: sampleStart,
  updated_at: sampleStart,
  elapsed_seconds: 0,
  step_elapsed_seconds: 0,
  expected: null,
  eta_seconds: null,
  slower_than: null,
  stalled: false,
  parts: [],
  ...fields,
});

export const sampleStep = (fields: Partial<Step> = {}): Step => ({
  step: 1,
  name: 'launch',
  label: 'Launching',
  status: 'pending',
  tries: 0,
  usual_seconds: null,
  started_at: null,
  finished_at: null,
  retry_at: null,
  error: null,
  ...fields,
});

export const sampleOperation = (fields: Partial<Operation> = {}): Operation => ({
  workflow_id: sampleIds.workflow_id,
  kind: 'node-provision',
  status: 'running',
  attempt: 1,
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  allocation_id: sampleIds.allocation_id,
  correlation_id: sampleIds.correlation_id,
  replica_id: null,
  actor: { kind: 'token', id: 'tok_1', name: 'admin' },
  progress: sampleProgress(),
  steps: [
    sampleStep({ step: 1, name: 'launch', label: 'Launching', status: 'running', usual_seconds: 1 }),
    sampleStep({ step: 2, name: 'register', label: 'Registering', usual_seconds: 2 }),
    sampleStep({ step: 3, name: 'start', label: 'Starting' }),
  ],
  error: null,
  created_at: sampleStart,
  started_at: sampleStart,
  finished_at: null,
  ...fields,
});

export const sampleAllocation = (fields: Partial<Allocation> = {}): Allocation => ({
  allocation_id: sampleIds.allocation_id,
  pool: 'local',
  node_id: sampleIds.node_id,
  tenant: 'default',
  name: null,
  status: 'provisioning',
  status_since: sampleStart,
  reason: null,
  owner_layer: null,
  workflow_id: sampleIds.workflow_id,
  correlation_id: sampleIds.correlation_id,
  progress: null,
  endpoint: null,
  deadline_at: null,
  budget_seconds: null,
  budget_source: null,
  release_tries: 0,
  retry_at: null,
  verdict: null,
  labels: {},
  created_at: sampleStart,
  active_at: null,
  released_at: null,
  ...fields,
});

export const sampleNode = (fields: Partial<Node> = {}): Node => ({
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  pool: 'local',
  name: 'local-1',
  zone: null,
  status: 'ready',
  status_since: sampleStart,
  occupancy: 'occupied',
  fenced: false,
  fence_reason: null,
  allocation_id: sampleIds.allocation_id,
  workflow_id: null,
  registered_at: sampleStart,
  agent_version: 'slipway-agent/1.2.3',
  last_seen_at: sampleStart,
  deadline_at: null,
  budget_seconds: null,
  budget_source: null,
  endpoint: null,
  reported: null,
  observed: null,
  would_have: null,
  waiting_for: null,
  held: null,
  verdict: null,
  restarts: 0,
  labels: {},
  created_at: sampleStart,
  ...fields,
});

export const samplePool = (fields: Partial<Pool> = {}): Pool => ({
  name: 'local',
  generation: 1,
  driver: 'local',
  created_at: sampleStart,
  updated_at: sampleStart,
  nodes: { live: 1, free: 0 },
  ...fields,
});

export const sampleEvidence = (fields: Partial<Evidence> = {}): Evidence => ({
  cursor: '1-1',
  at: sampleStart,
  layer: 'workflow',
  origin: 'internal',
  kind: 'operation.started',
  summary: 'node-provision started',
  data: {},
  actor: null,
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  correlation_id: sampleIds.correlation_id,
  allocation_id: sampleIds.allocation_id,
  workflow_id: sampleIds.workflow_id,
  ...fields,
});

export const sampleLogLine = (fields: Partial<LogLine> = {}): LogLine => ({
  node_instance_id: sampleIds.node_instance_id,
  seq: 1,
  at: sampleStart,
  stream: 'stdout',
  line: 'hello',
  ...fields,
});

/** Makes a refusal with the status, title and owner of its code in the error catalogue. */
export function sampleProblem(fields: Partial<Problem> = {}): Problem {
  const { code = 'pool_not_found' } = fields;
  const { status, title, owner_layer } = Object.hasOwn(errorCatalogue, code)
    ? errorCatalogue[code as ErrorCode]
    : { status: 500, title: code, owner_layer: 'control_plane' as const };
  return {
    type: `/docs/errors#${code}`,
    title,
    status,
    code,
    owner_layer,
    detail: 'no pool is named gpu',
    correlation_id: sampleIds.correlation_id,
    ...fields,
  };
}
