/**
 * The resources of the fake Azure subscription and the operations on them. There are no timers:
 * every read first finishes the operations that are due by the clock, so a virtual clock works too.
 */
import type { Clock } from '../../../src/base/clock.ts';
import type { Refusal } from './refusal.ts';

/** How many seconds each step takes. */
export interface ArmPace {
  /** A new resource group answers 404 for this long. */
  group_visible: number;
  group_delete: number;
  /** A new cluster answers 404 for this long. */
  cluster_visible: number;
  /** The control plane of a cluster; its pools follow one by one. */
  cluster_create: number;
  agent_pool: number;
  cluster_delete: number;
  abort: number;
  /** The `Retry-After` of a running operation, in whole seconds. */
  retry_after: number;
}

export const tinyPace: ArmPace = {
  group_visible: 0.05,
  group_delete: 0.05,
  cluster_visible: 0,
  cluster_create: 0.1,
  agent_pool: 0.05,
  cluster_delete: 0.1,
  abort: 0.05,
  retry_after: 1,
};

/** The phases at which a test can hold progress. */
export type ArmPhase =
  | 'group_visible'
  | 'cluster_visible'
  | 'cluster_create'
  | `pool:${string}`
  | 'cluster_delete'
  | 'abort'
  | 'group_delete';

export type Tags = Record<string, string>;

export interface Group {
  name: string;
  location: string;
  tags: Tags;
  state: 'Succeeded' | 'Deleting';
  put_ms: number;
  visible?: boolean;
  /** The cluster that AKS created this group for. */
  managed_by?: string;
}

export interface Pool {
  name: string;
  mode: string;
  vm_size: string;
  count: number;
  state: string;
  error?: { code: string; message: string };
}

export interface Cluster {
  group: string;
  name: string;
  location: string;
  tags: Tags;
  state: string;
  power: 'Running' | 'Stopped';
  kubernetes_version: string;
  /** The group with the cluster's machines, which AKS creates and deletes. */
  node_group: string;
  pools: Pool[];
  principal_id: string;
  put_ms: number;
  visible?: boolean;
  etag: number;
  error?: { code: string; message: string };
  /** The latest operation on the cluster, also after the operation ended. */
  latest: Operation | null;
}

export interface Assignment {
  name: string;
  scope: string;
  role_definition_id: string;
  principal_id: string;
  principal_type: string;
}

/** A resource that Slipway did not create. */
export interface Foreign {
  group: string;
  name: string;
  type: string;
  location: string;
  tags: Tags;
}

export interface Operation {
  id: string;
  location: string;
  status: 'InProgress' | 'Succeeded' | 'Failed' | 'Canceled';
  began_ms: number;
  ended_ms?: number;
  error?: { code: string; message: string };
  /** The duration at the current pace; infinite while a test holds the operation. */
  seconds(): number;
  /** Applies the partial results that the elapsed time has produced. */
  advance?(elapsed_seconds: number): void;
  finish(): Refusal | undefined;
}

/** ARM compares ids and names case-insensitively. */
export const sameName = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
export const isWithin = (scope: string, id: string) =>
  sameName(scope, id) || id.toLowerCase().startsWith(`${scope.toLowerCase()}/`);

export class FakeSubscription {
  readonly clock: Clock;
  readonly subscription_id: string;
  readonly pace: ArmPace;
  readonly heldPhases = new Set<ArmPhase>();
  groups: Group[] = [];
  clusters: Cluster[] = [];
  assignments: Assignment[] = [];
  foreign: Foreign[] = [];
  readonly operations = new Map<string, Operation>();

  constructor(clock: Clock, subscription_id: string, pace: ArmPace) {
    this.clock = clock;
    this.subscription_id = subscription_id;
    this.pace = pace;
  }

  seconds(phase: ArmPhase, pace: number): number {
    return this.heldPhases.has(phase) ? Number.POSITIVE_INFINITY : pace;
  }

  elapsed(since_ms: number): number {
    return (this.clock.nowMs() - since_ms) / 1000;
  }

  groupId(name: string): string {
    return `/subscriptions/${this.subscription_id}/resourceGroups/${name}`;
  }

  /** AKS writes `resourcegroups` in lower case, unlike the group's own id. */
  clusterId({ group, name }: { group: string; name: string }): string {
    return `/subscriptions/${this.subscription_id}/resourcegroups/${group}/providers/Microsoft.ContainerService/managedClusters/${name}`;
  }

  foreignId({ group, type, name }: Foreign): string {
    return `${this.groupId(group)}/providers/${type}/${name}`;
  }

  group(name: string): Group | undefined {
    return this.groups.find((group) => sameName(group.name, name));
  }

  cluster(group: string, name: string): Cluster | undefined {
    return this.clusters.find((cluster) => sameName(cluster.group, group) && sameName(cluster.name, name));
  }

  /** Also records that a resource has become visible, because it then stays visible. */
  private isVisible(resource: Group | Cluster, phase: ArmPhase, pace: number): boolean {
    resource.visible ||= this.elapsed(resource.put_ms) >= this.seconds(phase, pace);
    return resource.visible;
  }

  isGroupVisible(group: Group): boolean {
    return this.isVisible(group, 'group_visible', this.pace.group_visible);
  }

  isClusterVisible(cluster: Cluster): boolean {
    return this.isVisible(cluster, 'cluster_visible', this.pace.cluster_visible);
  }

  /** Removes all resources, operations and holds. */
  empty(): void {
    this.groups = [];
    this.clusters = [];
    this.assignments = [];
    this.foreign = [];
    this.operations.clear();
    this.heldPhases.clear();
  }

  begin(operation: Operation): Operation {
    this.operations.set(operation.id, operation);
    return operation;
  }

  /** Applies everything that is due: resources become visible, operations advance and finish. */
  settle(): void {
    for (const group of this.groups) this.isGroupVisible(group);
    for (const cluster of this.clusters) this.isClusterVisible(cluster);
    for (const operation of this.operations.values()) {
      if (operation.status !== 'InProgress') continue;
      const elapsed = this.elapsed(operation.began_ms);
      operation.advance?.(elapsed);
      if (elapsed < operation.seconds()) continue;
      const refusal = operation.finish();
      operation.ended_ms = this.clock.nowMs();
      operation.status = refusal ? 'Failed' : 'Succeeded';
      if (refusal) operation.error = { code: refusal.code, message: refusal.message };
    }
  }

  removeCluster(cluster: Cluster): void {
    this.clusters = this.clusters.filter((each) => each !== cluster);
    this.groups = this.groups.filter(({ managed_by }) => managed_by !== this.clusterId(cluster));
    this.assignments = this.assignments.filter(({ scope }) => !isWithin(this.clusterId(cluster), scope));
  }

  removeGroup(group: Group): void {
    for (const cluster of this.clusters.filter((each) => sameName(each.group, group.name))) this.removeCluster(cluster);
    this.foreign = this.foreign.filter((each) => !sameName(each.group, group.name));
    this.assignments = this.assignments.filter(({ scope }) => !isWithin(this.groupId(group.name), scope));
    this.groups = this.groups.filter((each) => each !== group);
  }
}
