/**
 * Derives where an instance is in Azure. Names come from the instance's id, so concurrent creates
 * of one instance use the same names.
 */
import type { DriverState, DriverTarget } from '../driver.ts';
import { isAksSpec } from './spec.ts';

export interface Place {
  subscription_id: string;
  resource_group: string;
  /** True if the group was made for this instance and is deleted with it. */
  own_group: boolean;
  cluster: string;
}

export const clusterName = ({ node_instance_id }: Pick<DriverTarget, 'node_instance_id'>): string =>
  `slipway-${node_instance_id.replaceAll('_', '-')}`;

/** The resource group for the machines of a cluster; AKS itself creates and deletes this group. */
export const nodeGroupOf = ({ cluster }: Place): string => `${cluster}-nodes`;

export const clusterId = ({ subscription_id, resource_group, cluster }: Place): string =>
  `/subscriptions/${subscription_id}/resourceGroups/${resource_group}/providers/Microsoft.ContainerService/managedClusters/${cluster}`;

export const placeIn = (target: DriverTarget, subscription_id: string, resource_group?: string): Place => {
  const cluster = clusterName(target);
  const group = resource_group ?? cluster;
  return { subscription_id, resource_group: group, own_group: group.toLowerCase() === cluster, cluster };
};

/** Undefined if state and spec are both lost. The caller must then search by tags. */
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

/** Reads the group from the id of a resource: `/subscriptions/…/resourceGroups/GROUP/…`. */
export const groupInId = (id: string): string | undefined => /\/resourceGroups\/([^/]+)/i.exec(id)?.[1];
