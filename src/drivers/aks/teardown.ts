/**
 * Ends the running operation of an instance (`abort`), or removes everything it has (`destroy`).
 * Never waits for Azure.
 */
import type { DriverDone, DriverFailure, DriverOutcome, DriverTarget, DriverWait } from '../driver.ts';
import { type AksHost, belongsToInstance, ofAnother, type Placed, placesOf, waitAndLook } from './aks-host.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { isBusy } from './cluster-words.ts';
import { ask_again_ms } from './ensure/ensure-group.ts';
import { ownRoles } from './ensure/ensure-roles.ts';
import { followOperation, isComing } from './ensure/follow-operation.ts';
import { clusterId, placeState } from './place.ts';

const max_named = 5;

const foreignThings = (group: string, ids: string[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'foreign_resources',
  message: `resource group ${group} was made for this instance and holds what is not of it, so it was left alone: ${ids.slice(0, max_named).join(', ')}${ids.length > max_named ? ` and ${ids.length - max_named} more` : ''}; move that away, or delete it`,
  retryable: true,
});

/** A requested group that is not visible yet: it will appear, and would be left behind. */
const isGroupComing = ({ clock }: AksHost, { state }: DriverTarget): boolean =>
  typeof state.group_asked_at_ms === 'number' &&
  state.arm_began_at_ms === undefined &&
  state.cluster_seen !== true &&
  clock.nowMs() - state.group_asked_at_ms < ask_again_ms;

/** Returns null if there is none. */
async function destroyGroup(
  host: AksHost,
  target: DriverTarget,
  { azure, place }: Placed,
): Promise<DriverWait | DriverFailure | null> {
  if (!place.own_group) return null;
  const { resource_group } = place;
  const group = await azure.groups.get(resource_group);
  if (!group)
    return isGroupComing(host, target)
      ? waitAndLook(
          host,
          `Azure was asked for resource group ${resource_group} and does not show it yet, so it cannot be deleted`,
        )
      : null;
  if (!belongsToInstance(group, target)) return ofAnother(`a resource group ${resource_group}`);
  if (group.state === 'Deleting') return waitAndLook(host, `resource group ${resource_group} is being deleted`);
  const own = clusterId(place).toLowerCase();
  // The list lags behind: our cluster may still be in it.
  const foreign = (await azure.groups.contents(resource_group)).filter(
    (each) => each.id.toLowerCase() !== own && !belongsToInstance(each, target),
  );
  if (foreign.length > 0)
    return foreignThings(
      resource_group,
      foreign.map(({ id }) => id),
    );
  await azure.groups.remove(resource_group);
  return waitAndLook(host, `resource group ${resource_group} is to be deleted`, {
    // It was seen, so it is not pending any more.
    state: { ...target.state, group_asked_at_ms: null },
  });
}

type Unfinished = DriverWait | DriverFailure | null;

/** Does nothing: we start no workload in a cluster, and whatever runs in it ends with it. */
export const stop = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'what runs in the cluster ends with the cluster',
});

export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'what was written in the cluster goes with it',
});

async function eachPlace(
  host: AksHost,
  target: DriverTarget,
  work: (placed: Placed) => Promise<Unfinished>,
  done: DriverDone,
): Promise<DriverOutcome> {
  for (const placed of await placesOf(host, target)) {
    const unfinished = await work(placed);
    if (unfinished) return unfinished;
  }
  return done;
}

const notYet = (host: AksHost, { place }: Placed) =>
  waitAndLook(host, `cluster ${place.cluster} was asked for and Azure does not show it yet, so it cannot be ended`);

async function endOperation(host: AksHost, { azure, place }: Placed, { provisioning }: Cluster): Promise<DriverWait> {
  if (['Canceling', 'Deleting'].includes(provisioning)) return waitAndLook(host, `AKS state: ${provisioning}`);
  await azure.clusters.abort(place);
  return waitAndLook(host, `AKS state: ${provisioning} · its abort was asked for`);
}

/** Done when Azure has no running operation for the instance; `destroy` removes the rest. */
export function abort(host: AksHost, target: DriverTarget): Promise<DriverOutcome> {
  const one = async (placed: Placed): Promise<Unfinished> => {
    const cluster = await placed.azure.clusters.get(placed.place);
    if (!cluster) return (await isComing(host, placed, target)) ? notYet(host, placed) : null;
    return belongsToInstance(cluster, target) && isBusy(cluster) ? endOperation(host, placed, cluster) : null;
  };
  return eachPlace(host, target, one, { outcome: 'done', message: 'Azure is at work on nothing of this instance' });
}

async function destroyCluster(host: AksHost, target: DriverTarget, placed: Placed): Promise<Unfinished> {
  const { azure, place } = placed;
  const cluster = await azure.clusters.get(place);
  if (!cluster) return (await isComing(host, placed, target)) ? notYet(host, placed) : null;
  if (!belongsToInstance(cluster, target)) return ofAnother(`a cluster ${place.cluster}`);
  if (isBusy(cluster)) return endOperation(host, placed, cluster);
  const before = await followOperation(host, azure, { operation: target.state.delete_operation ?? null });
  const delete_operation = await azure.clusters.remove(place);
  const failed = before?.state === 'failed' && before.error ? before.error : null;
  const again = failed ? `; the last try ended with ${failed.code}: ${host.redact(failed.message)}` : '';
  return waitAndLook(host, `cluster ${place.cluster} is to be deleted${again}`, {
    state: { ...target.state, ...placeState(place), cluster_seen: true, delete_operation },
  });
}

export async function destroy(host: AksHost, target: DriverTarget): Promise<DriverOutcome> {
  const one = async (placed: Placed): Promise<Unfinished> => {
    const cluster = await placed.azure.clusters.get(placed.place);
    if (cluster && !belongsToInstance(cluster, target)) return ofAnother(`a cluster ${placed.place.cluster}`);
    // Roles go before the cluster, because a role on a deleted resource cannot be found.
    for (const { scope, name } of await ownRoles(placed, target)) await placed.azure.roles.remove(scope, name);
    return (await destroyCluster(host, target, placed)) ?? destroyGroup(host, target, placed);
  };
  return eachPlace(host, target, one, {
    outcome: 'done',
    message: 'nothing of this instance is left in Azure',
    // Keeps only the place, so that a later request starts fresh.
    state: Object.fromEntries(
      Object.entries(target.state).filter(([name]) => ['subscription_id', 'resource_group'].includes(name)),
    ),
  });
}
