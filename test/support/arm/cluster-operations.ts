/**
 * The long-running operations on a cluster: create or update, abort, delete. As in AKS, at most one
 * of them runs on a cluster at a time.
 */
import { newOperation } from './async-operations.ts';
import type { ArmFaults } from './faults.ts';
import { type Refusal, refusals } from './refusal.ts';
import type { Cluster, FakeSubscription, Operation } from './subscription.ts';

const detailOf = ({ code, message }: Refusal) => ({ code, message });

export const isBusy = (cluster: Cluster) => cluster.latest?.status === 'InProgress';

export function refuseWhileBusy(subscription: FakeSubscription, cluster: Cluster): void {
  if (isBusy(cluster)) throw refusals.inProgress(cluster.state, subscription.pace.retry_after);
}

/**
 * Creates the control plane, then the pools one by one. A held pool also delays the pools after it.
 */
export function create(
  subscription: FakeSubscription,
  faults: ArmFaults,
  cluster: Cluster,
  state: 'Creating' | 'Updating',
): Operation {
  const pendingPools = cluster.pools.filter((pool) => pool.state !== 'Succeeded');
  const readyAfter = (count: number) => {
    let seconds = subscription.seconds('cluster_create', subscription.pace.cluster_create);
    for (const pool of pendingPools.slice(0, count))
      seconds += subscription.seconds(`pool:${pool.name}`, subscription.pace.agent_pool);
    return seconds;
  };
  cluster.state = state;
  for (const pool of pendingPools) pool.state = state;
  const operation = newOperation(subscription, cluster.location, {
    seconds: () => readyAfter(pendingPools.length),
    advance: (elapsed) => {
      for (const [index, pool] of pendingPools.entries()) {
        if (elapsed < readyAfter(index + 1)) return;
        const refusal = faults.pools_fail.get(pool.name);
        pool.state = refusal ? 'Failed' : 'Succeeded';
        if (refusal) pool.error = detailOf(refusal);
      }
    },
    finish: (): Refusal | undefined => {
      const poolRefusal = pendingPools.map(({ name }) => faults.pools_fail.get(name)).find(Boolean);
      const refusal = faults.cluster_fails ?? poolRefusal;
      cluster.state = refusal ? 'Failed' : 'Succeeded';
      if (refusal) cluster.error = detailOf(refusal);
      else delete cluster.error;
      return refusal;
    },
  });
  cluster.latest = operation;
  return operation;
}

export function abort(subscription: FakeSubscription, cluster: Cluster): Operation {
  const abortedOperation = cluster.latest;
  cluster.state = 'Canceling';
  if (abortedOperation) {
    abortedOperation.status = 'Canceled';
    abortedOperation.ended_ms = subscription.clock.nowMs();
  }
  const operation = newOperation(subscription, cluster.location, {
    seconds: () => subscription.seconds('abort', subscription.pace.abort),
    finish: () => {
      cluster.state = 'Canceled';
      for (const pool of cluster.pools) if (pool.state !== 'Succeeded') pool.state = 'Canceled';
      return undefined;
    },
  });
  cluster.latest = operation;
  return operation;
}

export function remove(subscription: FakeSubscription, cluster: Cluster): Operation {
  cluster.state = 'Deleting';
  for (const pool of cluster.pools) pool.state = 'Deleting';
  const operation = newOperation(subscription, cluster.location, {
    seconds: () => subscription.seconds('cluster_delete', subscription.pace.cluster_delete),
    finish: () => {
      subscription.removeCluster(cluster);
      return undefined;
    },
  });
  cluster.latest = operation;
  return operation;
}
