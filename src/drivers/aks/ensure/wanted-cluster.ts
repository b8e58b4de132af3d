/**
 * The create request for AKS: the cluster of the pool's spec, with our tags, under names derived
 * from the instance.
 */
import type { ManagedCluster } from '@azure/arm-containerservice';
import type { EnsureTarget } from '../../driver.ts';
import { nodeGroupOf, type Place } from '../place.ts';
import type { AksSpec } from '../spec.ts';
import { tagsOf } from '../tags.ts';

export const wantedTags = (target: EnsureTarget, spec: AksSpec) => ({ ...spec.tags, ...tagsOf(target) });

export const wantedCluster = (target: EnsureTarget, spec: AksSpec, place: Place): ManagedCluster => ({
  location: spec.location,
  tags: wantedTags(target, spec),
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
