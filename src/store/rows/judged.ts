/** The columns of nodes that rules and transitions need. */
import type { AllocationId } from '../../base/ids.ts';
import { holderOf } from './allocations.ts';
import type { NodeRow } from './nodes.ts';

const nodeColumns = [
  'node_id',
  'pool',
  'pool_generation',
  'zone',
  'status',
  'status_since',
  'registered_at',
  'deadline_at',
  'budget_seconds',
  'budget_source',
  'requested_provision_seconds',
  'waiting_for',
  'prerequisites',
  'reported_status',
  'observed_state',
  'drain_then',
  'held',
  'node_instance_id',
  'workflow_id',
  'correlation_id',
] as const satisfies (keyof NodeRow)[];

export type JudgedNode = Pick<NodeRow, (typeof nodeColumns)[number]> & {
  /** The allocation that the node belongs to; see `holderOf`. */
  holder: AllocationId | null;
  /** Whether `observed_state` was read from the provider since the last change of status. */
  is_observation_current: boolean | null;
};

/** Expects the alias `node`. */
export const judgedColumns = [
  ...nodeColumns.map((column) => `node.${column}`),
  'node.observed_at >= node.status_since as is_observation_current',
  `${holderOf('node.node_id')} as holder`,
].join(', ');
