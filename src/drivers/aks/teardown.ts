/**
 * Aborts the running operation of an instance (`abort`), or deletes all its resources (`destroy`).
 * No call waits for an Azure operation to end.
 */
import type { DriverDone, DriverFailure, DriverOutcome, DriverTarget, DriverWait } from '../driver.ts';
import {
  type AksHost,
  type AzurePlace,
  belongsToInstance,
  findPlaces,
  nameTakenFailure,
  waitAndPoll,
} from './aks-host.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { isBusy } from './cluster-state.ts';
import { group_retry_ms } from './ensure/ensure-group.ts';
import { findInstanceRoles } from './ensure/ensure-roles.ts';
import { followOperation, isClusterPending } from './ensure/follow-operation.ts';
import { clusterId, placeState } from './place.ts';

const max_listed_ids = 5;

const foreignResourcesFailure = (group: string, ids: string[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'foreign_resources',
  message: `resource group ${group} of this instance contains other resources, so it was not deleted: ${ids.slice(0, max_listed_ids).join(', ')}${ids.length > max_listed_ids ? ` and ${ids.length - max_listed_ids} more` : ''}; move or delete those resources`,
  retryable: true,
});

/** Whether a requested group may still appear. If `destroy` ended now, the group would stay. */
const isGroupPending = ({ clock }: AksHost, { state }: DriverTarget): boolean =>
  typeof state.group_asked_at_ms === 'number' &&
  state.arm_began_at_ms === undefined &&
  state.cluster_seen !== true &&
  clock.nowMs() - state.group_asked_at_ms < group_retry_ms;

/** Returns null if there is no group to delete. */
async function destroyGroup(
  host: AksHost,
  target: DriverTarget,
  { azure, place }: AzurePlace,
): Promise<DriverWait | DriverFailure | null> {
  if (!place.own_group) return null;
  const { resource_group } = place;
  const group = await azure.groups.get(resource_group);
  if (!group)
    return isGroupPending(host, target)
      ? waitAndPoll(
          host,
          `resource group ${resource_group} was requested, but Azure does not show it yet, so it cannot be deleted`,
        )
      : null;
  if (!belongsToInstance(group, target)) return nameTakenFailure(`a resource group ${resource_group}`);
  if (group.state === 'Deleting') return waitAndPoll(host, `resource group ${resource_group} is being deleted`);
  const ownClusterId = clusterId(place).toLowerCase();
  // Azure updates this list late, so it may still contain our deleted cluster.
  const foreignResources = (await azure.groups.listContents(resource_group)).filter(
    (resource) => resource.id.toLowerCase() !== ownClusterId && !belongsToInstance(resource, target),
  );
  if (foreignResources.length > 0)
    return foreignResourcesFailure(
      resource_group,
      foreignResources.map(({ id }) => id),
    );
  await azure.groups.remove(resource_group);
  return waitAndPoll(host, `deleting resource group ${resource_group}`, {
    // The group has appeared, so it is not pending any more.
    state: { ...target.state, group_asked_at_ms: null },
  });
}

type Unfinished = DriverWait | DriverFailure | null;

/** Does nothing, because the driver starts no workload in a cluster. */
export const stop = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'workloads end when the cluster is deleted',
});

/** Does nothing, because `destroy` deletes the data of the cluster. */
export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'data is deleted with the cluster',
});

/** Does the work in each place and returns the first unfinished answer, or `done`. */
async function inEachPlace(
  host: AksHost,
  target: DriverTarget,
  work: (azurePlace: AzurePlace) => Promise<Unfinished>,
  done: DriverDone,
): Promise<DriverOutcome> {
  for (const azurePlace of await findPlaces(host, target)) {
    const unfinished = await work(azurePlace);
    if (unfinished) return unfinished;
  }
  return done;
}

const waitUntilVisible = (host: AksHost, { place }: AzurePlace) =>
  waitAndPoll(host, `cluster ${place.cluster} was requested, but Azure does not show it yet; waiting until it appears`);

async function abortOperation(
  host: AksHost,
  { azure, place }: AzurePlace,
  { provisioning }: Cluster,
): Promise<DriverWait> {
  if (['Canceling', 'Deleting'].includes(provisioning)) return waitAndPoll(host, `AKS state: ${provisioning}`);
  await azure.clusters.abort(place);
  return waitAndPoll(host, `AKS state: ${provisioning} · abort requested`);
}

/** Is done when Azure has no running operation for the instance. `destroy` deletes resources. */
export function abort(host: AksHost, target: DriverTarget): Promise<DriverOutcome> {
  const abortIn = async (azurePlace: AzurePlace): Promise<Unfinished> => {
    const cluster = await azurePlace.azure.clusters.get(azurePlace.place);
    if (!cluster) return (await isClusterPending(host, azurePlace, target)) ? waitUntilVisible(host, azurePlace) : null;
    return belongsToInstance(cluster, target) && isBusy(cluster) ? abortOperation(host, azurePlace, cluster) : null;
  };
  return inEachPlace(host, target, abortIn, { outcome: 'done', message: 'no operation of this instance is running' });
}

async function destroyCluster(host: AksHost, target: DriverTarget, azurePlace: AzurePlace): Promise<Unfinished> {
  const { azure, place } = azurePlace;
  const cluster = await azure.clusters.get(place);
  if (!cluster) return (await isClusterPending(host, azurePlace, target)) ? waitUntilVisible(host, azurePlace) : null;
  if (!belongsToInstance(cluster, target)) return nameTakenFailure(`a cluster ${place.cluster}`);
  if (isBusy(cluster)) return abortOperation(host, azurePlace, cluster);
  const previous = await followOperation(host, azure, { operation: target.state.delete_operation ?? null });
  const delete_operation = await azure.clusters.remove(place);
  const error = previous?.state === 'failed' ? previous.error : null;
  const lastFailure = error ? `; the last attempt failed with ${error.code}: ${host.redact(error.message)}` : '';
  return waitAndPoll(host, `deleting cluster ${place.cluster}${lastFailure}`, {
    state: { ...target.state, ...placeState(place), cluster_seen: true, delete_operation },
  });
}

export async function destroy(host: AksHost, target: DriverTarget): Promise<DriverOutcome> {
  const destroyIn = async (azurePlace: AzurePlace): Promise<Unfinished> => {
    const cluster = await azurePlace.azure.clusters.get(azurePlace.place);
    if (cluster && !belongsToInstance(cluster, target))
      return nameTakenFailure(`a cluster ${azurePlace.place.cluster}`);
    // Role assignments are deleted first, because those on a deleted cluster cannot be found.
    for (const { scope, name } of await findInstanceRoles(azurePlace, target))
      await azurePlace.azure.roles.remove(scope, name);
    return (await destroyCluster(host, target, azurePlace)) ?? destroyGroup(host, target, azurePlace);
  };
  return inEachPlace(host, target, destroyIn, {
    outcome: 'done',
    message: 'no resources of this instance are left in Azure',
    // Only the place is kept, so a later `ensure` starts from the beginning.
    state: Object.fromEntries(
      Object.entries(target.state).filter(([name]) => ['subscription_id', 'resource_group'].includes(name)),
    ),
  });
}
