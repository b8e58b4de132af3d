/**
 * Applies live changes to the query cache. Besides the queries themselves, only this file and the
 * sign-in page (the new session) write server data there.
 */
import type { QueryClient } from '@tanstack/react-query';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { Operation } from '../../../../src/contract/operation.ts';
import type { FleetStore } from './fleet-store.ts';
import type { Change } from './journal.ts';
import { type Filters, keys, type ListKind } from './keys.ts';
import { capLiveList, type Pages, patchPages, patchTimeline } from './patch.ts';
import { noteArrival } from './received.ts';

export const nodeId = (node: Node) => node.node_id;
export const allocationId = (allocation: Allocation) => allocation.allocation_id;
export const operationId = (operation: Operation) => operation.workflow_id;

/** Keeps only the last of several changes to the same item. */
function keepLatest<T>(values: T[], idOf: (value: T) => string): T[] {
  return [...new Map(values.map((value) => [idOf(value), value])).values()];
}

const filtersOf = (key: readonly unknown[]): Filters => (key.at(-1) ?? {}) as Filters;

function patchLists<T extends object>(cache: QueryClient, kind: ListKind, values: T[], idOf: (value: T) => string) {
  for (const [key, data] of cache.getQueriesData<Pages<T>>({ queryKey: keys.allLists(kind) })) {
    if (!data) continue;
    const patched = values.reduce((pages, value) => patchPages(pages, value, idOf, filtersOf(key)), data);
    if (patched !== data) cache.setQueryData(key, capLiveList(patched, idOf));
  }
}

function patchOne<T>(cache: QueryClient, kind: ListKind, value: T, idOf: (value: T) => string) {
  cache.setQueryData<T>(keys.one(kind, idOf(value)), (known) => (known === undefined ? undefined : value));
}

function applyNodes(cache: QueryClient, nodes: Node[]) {
  for (const [, fleet] of cache.getQueriesData<FleetStore>({ queryKey: keys.allFleets() })) fleet?.apply(nodes);
  patchLists(cache, 'nodes', nodes, nodeId);
  for (const node of nodes) patchOne(cache, 'nodes', node, nodeId);
}

function applyAllocations(cache: QueryClient, allocations: Allocation[]) {
  for (const allocation of allocations) noteArrival(allocation.progress);
  patchLists(cache, 'allocations', allocations, allocationId);
  for (const allocation of allocations) patchOne(cache, 'allocations', allocation, allocationId);
}

function applyOperations(cache: QueryClient, operations: Operation[]) {
  for (const operation of operations) noteArrival(operation.progress);
  patchLists(cache, 'operations', operations, operationId);
  for (const operation of operations) patchOne(cache, 'operations', operation, operationId);
  applyAllocations(cache, withNewProgress(cache, operations));
}

/**
 * Returns the cached allocations of these operations with the new progress: an allocation shows
 * its operation's progress, but gets no event of its own when that changes.
 */
function withNewProgress(cache: QueryClient, operations: Operation[]): Allocation[] {
  const byId = new Map(operations.map((operation) => [operation.workflow_id, operation.progress]));
  const lists = cache.getQueriesData<Pages<Allocation>>({ queryKey: keys.allLists('allocations') });
  const single = cache.getQueriesData<Allocation>({ queryKey: keys.allSingle('allocations') });
  const known = [
    ...lists.flatMap(([, data]) => data?.pages.flatMap((page) => page.items) ?? []),
    ...single.flatMap(([, data]) => data ?? []),
  ];
  return keepLatest(known, allocationId).flatMap((allocation) => {
    const progress = allocation.workflow_id === null ? undefined : byId.get(allocation.workflow_id);
    return progress ? [{ ...allocation, progress }] : [];
  });
}

function applyEvidence(cache: QueryClient, facts: Evidence[]) {
  for (const [key, data] of cache.getQueriesData<Pages<Evidence>>({ queryKey: keys.allTimelines() })) {
    if (!data) continue;
    const patched = facts.reduce((pages, fact) => patchTimeline(pages, fact, filtersOf(key)), data);
    if (patched !== data) cache.setQueryData(key, patched);
  }
}

export function applyChanges(cache: QueryClient, changes: Change[]): void {
  const nodes: Node[] = [];
  const allocations: Allocation[] = [];
  const operations: Operation[] = [];
  const evidence: Evidence[] = [];
  for (const change of changes) {
    if (change.topic === 'node') nodes.push(change.value);
    else if (change.topic === 'allocation') allocations.push(change.value);
    else if (change.topic === 'operation') operations.push(change.value);
    else evidence.push(change.value);
  }
  if (nodes.length > 0) applyNodes(cache, keepLatest(nodes, nodeId));
  if (allocations.length > 0) applyAllocations(cache, keepLatest(allocations, allocationId));
  if (operations.length > 0) applyOperations(cache, keepLatest(operations, operationId));
  if (evidence.length > 0) applyEvidence(cache, evidence);
}
