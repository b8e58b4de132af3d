/**
 * The long-running operations on a cluster: create or update, abort, delete. Like AKS, it runs at
 * most one at a time.
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
  const waiting = cluster.pools.filter((pool) => pool.state !== 'Succeeded');
  const readyAfter = (count: number) => {
    let seconds = subscription.seconds('cluster_create', subscription.pace.cluster_create);
    for (const pool of waiting.slice(0, count))
      seconds += subscription.seconds(`pool:${pool.name}`, subscription.pace.agent_pool);
    return seconds;
  };
  cluster.state = state;
  for (const pool of waiting) pool.state = state;
  const operation = newOperation(subscription, cluster.location, {
    seconds: () => readyAfter(waiting.length),
    advance: (elapsed) => {
      for (const [index, pool] of waiting.entries()) {
        if (elapsed < readyAfter(index + 1)) return;
        const refused = faults.pools_fail.get(pool.name);
        pool.state = refused ? 'Failed' : 'Succeeded';
        if (refused) pool.error = detailOf(refused);
      }
    },
    finish: (): Refusal | undefined => {
      const failed = waiting.map(({ name }) => faults.pools_fail.get(name)).find(Boolean);
      const refused = faults.cluster_fails ?? failed;
      cluster.state = refused ? 'Failed' : 'Succeeded';
      if (refused) cluster.error = detailOf(refused);
      else delete cluster.error;
      return refused;
    },
  });
  cluster.latest = operation;
  return operation;
}

export function abort(subscription: FakeSubscription, cluster: Cluster): Operation {
  const aborted = cluster.latest;
  cluster.state = 'Canceling';
  if (aborted) {
    aborted.status = 'Canceled';
    aborted.ended_ms = subscription.clock.nowMs();
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
