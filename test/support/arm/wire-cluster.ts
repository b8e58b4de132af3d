/** A cluster and its pools in AKS's format. */
import { moment } from '../../../src/base/clock.ts';
import type { Cluster, FakeSubscription, Pool } from './subscription.ts';

const poolProperties = (cluster: Cluster, pool: Pool) => ({
  count: pool.count,
  vmSize: pool.vm_size,
  mode: pool.mode,
  osType: 'Linux',
  type: 'VirtualMachineScaleSets',
  orchestratorVersion: cluster.kubernetes_version,
  provisioningState: pool.state,
  ...(pool.error && { status: { provisioningError: pool.error } }),
  powerState: { code: cluster.power },
});

export const wirePool = (subscription: FakeSubscription, cluster: Cluster, pool: Pool) => ({
  id: `${subscription.clusterId(cluster)}/agentPools/${pool.name}`,
  name: pool.name,
  type: 'Microsoft.ContainerService/managedClusters/agentPools',
  properties: poolProperties(cluster, pool),
});

/** `powerState` is `Running` from the start, even while everything is still `Creating`. */
export const wireCluster = (subscription: FakeSubscription, cluster: Cluster) => ({
  id: subscription.clusterId(cluster),
  name: cluster.name,
  type: 'Microsoft.ContainerService/ManagedClusters',
  location: cluster.location,
  tags: cluster.tags,
  eTag: `"${cluster.etag}"`,
  sku: { name: 'Base', tier: 'Free' },
  identity: { type: 'SystemAssigned', principalId: cluster.principal_id },
  systemData: { createdAt: moment(cluster.put_ms).toISOString() },
  properties: {
    provisioningState: cluster.state,
    ...(cluster.error && { status: { provisioningError: cluster.error } }),
    powerState: { code: cluster.power },
    kubernetesVersion: cluster.kubernetes_version,
    currentKubernetesVersion: cluster.kubernetes_version,
    dnsPrefix: cluster.name,
    ...(cluster.state !== 'Creating' && { fqdn: `${cluster.name}.hcp.${cluster.location}.azmk8s.io` }),
    nodeResourceGroup: cluster.node_group,
    agentPoolProfiles: cluster.pools.map((pool) => ({ name: pool.name, ...poolProperties(cluster, pool) })),
    identityProfile: { kubeletidentity: { objectId: cluster.principal_id } },
  },
});
