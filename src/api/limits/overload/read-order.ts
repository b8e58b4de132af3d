/**
 * Which reads an overloaded replica refuses, and in which order. Changes, registrations and beats have their own rules
 * (docs/decisions/0022). A read that is in no line does not compile.
 */
import type { OperationName, Routes } from '../../../contract/routes.ts';
import { attentionStatuses } from '../../../lifecycle/explain/attention.ts';

/**
 * - first: refused as soon as there is too much to do; reads much, and may be a little old
 * - last: refused only when plain beats are put off too
 * - never: what a person needs to see what is wrong, and what machines and probes need
 */
export type Turn = 'first' | 'last' | 'never';

type ReadName = { [Name in OperationName]: Routes[Name]['method'] extends 'GET' ? Name : never }[OperationName];

export const readOrder: Record<ReadName, Turn> = {
  'fleet-get': 'first',
  'node-list': 'first',
  'allocation-list': 'first',
  'operation-list': 'first',
  'timeline-get': 'first',
  'audit-list': 'first',
  'pool-boots': 'first',
  'overview-get': 'last',

  // One thing.
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
  // Attention, besides the lists below.
  'brake-get': 'never',
  'sweep-list': 'never',
  'pool-list': 'never',
  'residue-list': 'never',
  'drift-list': 'never',
  'fleet-count': 'never',
  // The server itself, and who may use it.
  'health-get': 'never',
  'readiness-get': 'never',
  'metrics-get': 'never',
  'settings-get': 'never',
  'session-get': 'never',
  'session-list': 'never',
  'token-list': 'never',
  'join-token-list': 'never',
  'secret-list': 'never',
  'maintenance-list': 'never',
  'key-list': 'never',
  // Bounded by places of their own, or asked for by hand.
  'stream-open': 'never',
  'evidence-verify': 'never',
  'evidence-export': 'never',
  'store-verify': 'never',
  // Machines.
  'agent-checkup': 'never',
  'agent-ping-get': 'never',
  'agent-bundle': 'never',
  'agent-stream': 'never',
  'agent-task-next': 'never',
  'agent-task-keys': 'never',
};

/** The lists that Attention is made of, by the status they ask for. */
const attentionLists: Partial<Record<OperationName, readonly string[]>> = {
  'node-list': attentionStatuses.nodes,
  'allocation-list': attentionStatuses.allocations,
  'operation-list': attentionStatuses.operations,
};

/** Before it is validated. */
type Query = Record<string, unknown>;

const isOfAttention = (name: OperationName, { status }: Query) =>
  typeof status === 'string' && (attentionLists[name]?.includes(status) ?? false);
const isOneNode = (name: OperationName, { ids }: Query) =>
  name === 'node-list' && typeof ids === 'string' && !ids.includes(',');

const turnOf = new Map<string, Turn>(Object.entries(readOrder));

export const readTurn = (name: OperationName, query: Query): Turn =>
  isOfAttention(name, query) || isOneNode(name, query) ? 'never' : (turnOf.get(name) ?? 'never');
