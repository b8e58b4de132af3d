/** Managed clusters: reading, creating, deleting. Nothing here waits for an operation to end. */
import type { ManagedCluster, ManagedClusterAgentPoolProfile } from '@azure/arm-containerservice';
import { moment } from '../../../base/clock.ts';
import { clusterId, type Place } from '../place.ts';
import type { Tags } from '../tags.ts';
import { type AzureAccount, clientOptions } from './azure-account.ts';
import { isMissing, type ProviderError, providerError } from './azure-error.ts';
import { type LatestOperation, latestOperation, recentEvents } from './azure-looks.ts';
import { type FollowedOperation, followOperation } from './azure-operation.ts';
import { azureSdks } from './sdks.ts';

export interface ClusterPool {
  name: string;
  /** AKS's own word. */
  state: string;
  count: number;
  error: ProviderError | null;
}

export interface Cluster {
  id: string;
  tags: Tags;
  /**
   * AKS's own words for provisioning and power. It says `Running` long before the cluster is
   * complete.
   */
  provisioning: string;
  power: string;
  version: string;
  pools: ClusterPool[];
  error: ProviderError | null;
  created_at: Date | null;
}

export interface AzureClusters {
  /** Null if there is none. */
  get(place: Place): Promise<Cluster | null>;
  /** Returns a handle for the operation. Refused if the cluster exists already. */
  create(place: Place, wanted: ManagedCluster): Promise<string>;
  remove(place: Place): Promise<string>;
  /** Requests the end of the running operation; refused if there is none. */
  abort(place: Place): Promise<void>;
  /** Null if the operation is no longer known. */
  follow(operation: string): Promise<FollowedOperation | null>;
  latest(place: Place): Promise<LatestOperation | null>;
  events(place: Place, since: Date): Promise<string[]>;
}

const poolOf = (wire: ManagedClusterAgentPoolProfile): ClusterPool => ({
  name: wire.name,
  state: wire.provisioningState ?? 'Unknown',
  count: wire.count ?? 0,
  error: providerError(wire.status?.provisioningError) ?? null,
});

const clusterOf = (place: Place, wire: ManagedCluster): Cluster => ({
  id: wire.id ?? clusterId(place),
  tags: wire.tags ?? {},
  provisioning: wire.provisioningState ?? 'Unknown',
  power: wire.powerState?.code ?? 'Unknown',
  version: wire.currentKubernetesVersion ?? wire.kubernetesVersion ?? '',
  pools: (wire.agentPoolProfiles ?? []).map(poolOf),
  error: providerError(wire.status?.provisioningError) ?? null,
  created_at: wire.systemData?.createdAt ? moment(wire.systemData.createdAt.getTime()) : null,
});

export async function openClusters(subscription_id: string, account: AzureAccount): Promise<AzureClusters> {
  const { ContainerServiceClient, restorePoller, createContainerService } = await azureSdks();
  const options = clientOptions(account);
  const { managedClusters } = new ContainerServiceClient(account.credential, subscription_id, options);
  const context = createContainerService(account.credential, subscription_id, options);
  return {
    async get(place) {
      try {
        return clusterOf(place, await managedClusters.get(place.resource_group, place.cluster));
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    async create({ resource_group, cluster }, wanted) {
      // Azure refuses a concurrent create of the same name, and nothing that exists is overwritten.
      const poller = managedClusters.createOrUpdate(resource_group, cluster, wanted, { ifNoneMatch: '*' });
      await poller.submitted();
      return poller.serialize();
    },
    async remove({ resource_group, cluster }) {
      const poller = managedClusters.delete(resource_group, cluster);
      await poller.submitted();
      return poller.serialize();
    },
    async abort({ resource_group, cluster }) {
      await managedClusters.abortLatestOperation(resource_group, cluster).submitted();
    },
    follow: (operation) => followOperation({ context, restorePoller }, operation, account.clock),
    latest: (place) => latestOperation(context, place),
    events: (place, since) => recentEvents(context, place, since),
  };
}
