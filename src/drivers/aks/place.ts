/**
 * Where an instance is in Azure. Every name is derived from the instance's id, so that concurrent
 * creates use the same one.
 */
import type { DriverState, DriverTarget } from '../driver.ts';
import { isAksSpec } from './spec.ts';

export interface Place {
  subscription_id: string;
  resource_group: string;
  /** Made for this instance and deleted with it; false for a group that the pool names. */
  own_group: boolean;
  cluster: string;
}

export const clusterName = ({ node_instance_id }: Pick<DriverTarget, 'node_instance_id'>): string =>
  `slipway-${node_instance_id.replaceAll('_', '-')}`;

/** The group in which AKS keeps the machines; AKS creates and deletes it. */
export const nodeGroupOf = ({ cluster }: Place): string => `${cluster}-nodes`;

export const clusterId = ({ subscription_id, resource_group, cluster }: Place): string =>
  `/subscriptions/${subscription_id}/resourceGroups/${resource_group}/providers/Microsoft.ContainerService/managedClusters/${cluster}`;

export const placeIn = (target: DriverTarget, subscription_id: string, resource_group?: string): Place => {
  const cluster = clusterName(target);
  const group = resource_group ?? cluster;
  return { subscription_id, resource_group: group, own_group: group.toLowerCase() === cluster, cluster };
};

/** Undefined without a known pool. The caller must then search by tags. */
export function placeOf(target: DriverTarget): Place | undefined {
  const { subscription_id, resource_group } = target.state;
  if (typeof subscription_id === 'string' && typeof resource_group === 'string')
    return placeIn(target, subscription_id, resource_group);
  return isAksSpec(target.spec) ? placeIn(target, target.spec.subscription_id, target.spec.resource_group) : undefined;
}

export const placeState = ({ subscription_id, resource_group }: Place): DriverState => ({
  subscription_id,
  resource_group,
});

/** The group in the id of a resource: `/subscriptions/…/resourceGroups/GROUP/…`. */
export const groupInId = (id: string): string | undefined => /\/resourceGroups\/([^/]+)/i.exec(id)?.[1];
