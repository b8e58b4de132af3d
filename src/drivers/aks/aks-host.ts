/** Holds what all calls of the aks driver share: Azure clients, settings and common answers. */
import type { Clock } from '../../base/clock.ts';
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import type { Azure } from './azure/azure.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { azureFailure } from './azure/azure-failure.ts';
import type { Redact } from './azure/redact.ts';
import { groupInId, type Place, placeIn, placeOf } from './place.ts';
import { areInstanceTags } from './tags.ts';

export interface AksHost {
  clock: Clock;
  azureAt(subscription_id: string): Promise<Azure>;
  /** Returns every subscription that a pool names or named earlier. */
  subscriptionsInUse(): Promise<string[]>;
  /** The interval between polls while an operation of Azure is running. */
  poll_seconds: number;
  redact: Redact;
}

/** A place that an instance may be in, with the client of its subscription. */
export interface AzurePlace {
  azure: Azure;
  place: Place;
}

export const clusterType = 'Microsoft.ContainerService/managedClusters';

/**
 * Returns the places that the instance may be in. If the state and the spec are lost, the
 * subscription is unknown, so all subscriptions are searched by name and by tag.
 */
export async function findPlaces(host: AksHost, target: DriverTarget): Promise<AzurePlace[]> {
  const knownPlace = placeOf(target);
  if (knownPlace) return [{ azure: await host.azureAt(knownPlace.subscription_id), place: knownPlace }];
  const subscriptions = await Promise.all((await host.subscriptionsInUse()).map((id) => host.azureAt(id)));
  const candidates = await Promise.all(
    subscriptions.map(async (azure) => {
      const clusters = (await azure.groups.listByType(clusterType)).filter(({ tags }) => areInstanceTags(tags, target));
      const groups = [undefined, ...clusters.map(({ id }) => groupInId(id))];
      const places = groups.map((group) => placeIn(target, azure.subscription_id, group));
      const distinct = new Map(places.map((place) => [place.resource_group.toLowerCase(), place]));
      return [...distinct.values()].map((place) => ({ azure, place }));
    }),
  );
  return candidates.flat();
}

/** The failure for a resource that has our name but not our tags. It must not be changed. */
export const nameTakenFailure = (what: string, phase?: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'name_of_another',
  message: `${what} exists but does not have the tags of this instance, so it was not changed`,
  retryable: false,
  ...(phase && { phase }),
});

export const belongsToInstance = (resource: Pick<Cluster, 'tags'>, target: DriverTarget): boolean =>
  areInstanceTags(resource.tags, target);

/** Does the work, and turns an error of Azure into an answer with this phase. */
export async function runInPhase<Answer>(
  host: AksHost,
  phase: string,
  work: () => Promise<Answer>,
): Promise<Answer | DriverFailure | DriverWait> {
  try {
    return await work();
  } catch (error) {
    return azureFailure(error, { redact: host.redact, now_ms: host.clock.nowMs(), phase });
  }
}

export const waitAndPoll = (
  host: AksHost,
  message: string,
  fields: Partial<Omit<DriverWait, 'put_off' | 'error'>> = {},
): DriverWait => ({
  outcome: 'wait',
  retry_seconds: host.poll_seconds,
  message,
  ...fields,
});
