/** The state that all calls of the aks driver share: subscriptions, clock and poll interval. */
import type { Clock } from '../../base/clock.ts';
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import type { Azure } from './azure/azure.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { azureFailure } from './azure/azure-failure.ts';
import type { Redact } from './azure/redact.ts';
import { groupInId, type Place, placeIn, placeOf } from './place.ts';
import { areOf } from './tags.ts';

export interface AksHost {
  clock: Clock;
  azureAt(subscription_id: string): Promise<Azure>;
  /** Every subscription that a pool names, now or earlier. */
  subscriptionsInUse(): Promise<string[]>;
  /** Poll interval while Azure works on something. */
  look_seconds: number;
  redact: Redact;
}

export interface Placed {
  azure: Azure;
  place: Place;
}

export const clusterType = 'Microsoft.ContainerService/managedClusters';

/**
 * Returns where the instance may be. Without its pool the subscription is unknown, so all
 * subscriptions are searched by name and by tag.
 */
export async function placesOf(host: AksHost, target: DriverTarget): Promise<Placed[]> {
  const known = placeOf(target);
  if (known) return [{ azure: await host.azureAt(known.subscription_id), place: known }];
  const subscriptions = await Promise.all((await host.subscriptionsInUse()).map((id) => host.azureAt(id)));
  const found = await Promise.all(
    subscriptions.map(async (azure) => {
      const clusters = (await azure.groups.ofType(clusterType)).filter(({ tags }) => areOf(tags, target));
      const groups = [undefined, ...clusters.map(({ id }) => groupInId(id))];
      const places = groups.map((group) => placeIn(target, azure.subscription_id, group));
      const distinct = new Map(places.map((place) => [place.resource_group.toLowerCase(), place]));
      return [...distinct.values()].map((place) => ({ azure, place }));
    }),
  );
  return found.flat();
}

/** The failure for a resource with our name but without our tags, which must not be touched. */
export const ofAnother = (what: string, phase?: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'name_of_another',
  message: `${what} exists and does not carry the tags of this instance; it was left alone`,
  retryable: false,
  ...(phase && { phase }),
});

export const belongsToInstance = (found: Pick<Cluster, 'tags'>, target: DriverTarget): boolean =>
  areOf(found.tags, target);

/** Adds the phase to a refusal by Azure. */
export async function inPhase<Answer>(
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

export const waitAndLook = (
  host: AksHost,
  message: string,
  rest: Partial<Omit<DriverWait, 'put_off' | 'error'>> = {},
): DriverWait => ({
  outcome: 'wait',
  retry_seconds: host.look_seconds,
  message,
  ...rest,
});
