/** The phases of `ensure` that users see, and the requests that create a cluster. */

import type { ManagedCluster } from '@azure/arm-containerservice';
import type { EnsureTarget, PlannedStep } from '../../driver.ts';
import type { AksHost } from '../aks-host.ts';
import type { Azure } from '../azure/azure.ts';
import { nodeGroupOf, type Place } from '../place.ts';
import type { AksSpec } from '../spec.ts';
import { tagsOf } from '../tags.ts';

export const phases = {
  begin: 'creating_cluster',
  group: 'ensuring_resource_group',
  create: 'arm_create_or_update',
  roles: 'ensuring_rbac',
  done: 'completed',
} as const;

export const plannedPhases = (): PlannedStep[] => [
  { phase: phases.begin, label: 'Preparing the cluster', usual_seconds: 2, owner_layer: 'provider' },
  { phase: phases.group, label: 'Ensuring the resource group', usual_seconds: 5, owner_layer: 'provider' },
  {
    phase: phases.create,
    label: 'Creating AKS cluster',
    usual_seconds: 300,
    owner_layer: 'provider',
    slow_seconds: 600,
  },
  { phase: phases.roles, label: 'Ensuring role assignments', usual_seconds: 10, owner_layer: 'provider' },
  { phase: phases.done, label: 'Waiting for the cluster to be ready', usual_seconds: null, owner_layer: 'provider' },
];

/** The arguments that every step of `ensure` needs. */
export interface EnsureContext {
  host: AksHost;
  target: EnsureTarget;
  spec: AksSpec;
  azure: Azure;
  place: Place;
}

export const buildTags = (target: EnsureTarget, spec: AksSpec) => ({ ...spec.tags, ...tagsOf(target) });

/** Returns the create request: the cluster of the pool's spec, with our names and tags. */
export const buildClusterRequest = (target: EnsureTarget, spec: AksSpec, place: Place): ManagedCluster => ({
  location: spec.location,
  tags: buildTags(target, spec),
  identity: { type: 'SystemAssigned' },
  dnsPrefix: place.cluster,
  nodeResourceGroup: nodeGroupOf(place),
  ...(spec.kubernetes_version && { kubernetesVersion: spec.kubernetes_version }),
  agentPoolProfiles: spec.pools.map(({ name, mode, vm_size, count }) => ({
    name,
    mode,
    vmSize: vm_size,
    count,
    osType: 'Linux',
    type: 'VirtualMachineScaleSets',
  })),
});
