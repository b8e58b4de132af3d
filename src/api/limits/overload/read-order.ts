/**
 * Lists which reads an overloaded replica refuses, and in which order. Changes, registrations and
 * heartbeats have their own rules (docs/decisions/0022). A read without an entry does not compile.
 */
import type { OperationName, Routes } from '../../../contract/routes.ts';
import { attentionStatuses } from '../../../lifecycle/explain/attention.ts';

/**
 * - first: refused at the start of an overload; costs much, and people can do with an older copy
 * - last: refused only when plain heartbeats are shed too
 * - never: needed by people to see what is wrong, by machines or by probes
 */
export type ShedOrder = 'first' | 'last' | 'never';

type ReadName = { [Name in OperationName]: Routes[Name]['method'] extends 'GET' ? Name : never }[OperationName];

export const readOrder: Record<ReadName, ShedOrder> = {
  'fleet-get': 'first',
  'node-list': 'first',
  'allocation-list': 'first',
  'operation-list': 'first',
  'timeline-get': 'first',
  'audit-list': 'first',
  'pool-boots': 'first',
  'restoration-differences': 'first',
  'overview-get': 'last',

  // Single resources.
  'node-get': 'never',
  'node-explain': 'never',
  'node-actions': 'never',
  'node-state': 'never',
  'node-timeline': 'never',
  'node-logs': 'never',
  'node-boot': 'never',
  'node-checkup': 'never',
  'node-ping-get': 'never',
  'allocation-get': 'never',
  'allocation-certificate': 'never',
  'allocation-actions': 'never',
  'operation-get': 'never',
  'pool-get': 'never',
  'thing-find': 'never',
  // The Attention page also needs these, besides the lists below.
  'brake-get': 'never',
  'sweep-list': 'never',
  'restoration-get': 'never',
  'pool-list': 'never',
  'residue-list': 'never',
  'drift-list': 'never',
  'fleet-count': 'never',
  // The server itself and its users.
  'health-get': 'never',
  'readiness-get': 'never',
  'metrics-get': 'never',
  'settings-get': 'never',
  'server-status': 'never',
  'session-get': 'never',
  'session-list': 'never',
  'token-list': 'never',
  'join-token-list': 'never',
  'secret-list': 'never',
  'maintenance-list': 'never',
  'key-list': 'never',
  // These have limits of their own, or are run by hand.
  'stream-open': 'never',
  'evidence-verify': 'never',
  'evidence-export': 'never',
  'store-verify': 'never',
  // Calls of machines.
  'agent-checkup': 'never',
  'agent-ping-get': 'never',
  'agent-bundle': 'never',
  'agent-stream': 'never',
  'agent-task-next': 'never',
  'agent-task-keys': 'never',
};

/** The lists of the Attention page are never refused if filtered by one of these statuses. */
const attentionLists: Partial<Record<OperationName, readonly string[]>> = {
  'node-list': attentionStatuses.nodes,
  'allocation-list': attentionStatuses.allocations,
  'operation-list': attentionStatuses.operations,
};

/** The query is not validated yet. */
type Query = Record<string, unknown>;

const isAttentionList = (name: OperationName, { status }: Query) =>
  typeof status === 'string' && (attentionLists[name]?.includes(status) ?? false);
const isOneNode = (name: OperationName, { ids }: Query) =>
  name === 'node-list' && typeof ids === 'string' && !ids.includes(',');

const shedOrders = new Map<string, ShedOrder>(Object.entries(readOrder));

export const shedOrderOf = (name: OperationName, query: Query): ShedOrder =>
  isAttentionList(name, query) || isOneNode(name, query) ? 'never' : (shedOrders.get(name) ?? 'never');
