/** What is read of a node to judge it: what rules decide by and the door writes by. The rest of the row stays where it is. */
import type { AllocationId } from '../base/ids.ts';
import { holderOf } from './allocations.ts';
import type { NodeRow } from './nodes.ts';

const columns = [
  'node_id',
  'node_instance_id',
  'pool',
  'pool_generation',
  'zone',
  'labels',
  'status',
  'status_since',
  'workflow_id',
  'correlation_id',
  'registered_at',
  'deadline_at',
  'budget_seconds',
  'budget_source',
  'requested_provision_seconds',
  'waiting_for',
  'prerequisites',
  'reported_status',
  'observed_state',
  'observed_at',
  'drain_then',
  'held',
] as const satisfies (keyof NodeRow)[];

export type JudgedNode = Pick<NodeRow, (typeof columns)[number]> & {
  /** The allocation whose node it is. */
  holder: AllocationId | null;
  /** Where the row lies; as long as it is locked, nothing moves it, and no index need be asked again. */
  tid: string;
};

/** Expects `node`. */
export const judgedColumns = `${columns.map((column) => `node.${column}`).join(', ')}, ${holderOf('node.node_id')} as holder, node.ctid::text as tid`;
