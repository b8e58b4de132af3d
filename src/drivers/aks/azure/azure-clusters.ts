/** Reads, creates and deletes managed clusters. Nothing here waits for an operation to end. */
import type {
  ContainerServiceClient,
  ManagedCluster,
  ManagedClusterAgentPoolProfile,
  restorePoller,
} from '@azure/arm-containerservice';
import type { ContainerServiceContext } from '@azure/arm-containerservice/api';
import { type Clock, moment } from '../../../base/clock.ts';
import { clusterId, type Place } from '../place.ts';
import type { Tags } from '../tags.ts';
import { type AzureAccount, azureSdks, clientOptions } from './azure-account.ts';
import { isMissing, type ProviderError, providerError, secondsIn } from './azure-error.ts';

interface FollowedOperation {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  /** When Azure wants the next poll. */
  retry_after_seconds: number | null;
  /** The handle to use from now on. */
  operation: string;
}

interface Followers {
  context: ContainerServiceContext;
  restorePoller: typeof restorePoller;
}

interface Heard {
  status: string;
  body: unknown;
  headers: Record<string, string | undefined>;
}

/** The SDK's poller hides the operation's body, so record every response it receives. */
function listening(context: ContainerServiceContext, heard: Heard[]): ContainerServiceClient {
  const pathUnchecked = (path: string) => ({
    get: async (options: object) => {
      const { status, body, headers, ...others } = await context.pathUnchecked(path).get(options);
      heard.push({ status, body, headers });
      return { status, body, headers, ...others };
    },
  });
  return { ...context, pathUnchecked } as unknown as ContainerServiceClient;
}

const never = () => {
  throw new TypeError('an operation that is followed is not begun again');
};

function restored({ context, restorePoller: restore }: Followers, operation: string, heard: Heard[]) {
  try {
    return { poller: restore(listening(context, heard), operation, never) };
  } catch {
    // Written by another version of the SDK. Its error would quote the handle, so it is dropped.
    return null;
  }
}

const isAnswer = (heard: Heard | undefined) => heard?.status === '200' || heard?.status === '202';

/** Any status that is not final counts as running. */
const ends: [RegExp, FollowedOperation['state']][] = [
  [/^succeeded$/i, 'succeeded'],
  [/^failed$/i, 'failed'],
  [/^cancell?ed$/i, 'canceled'],
];
const stateOf = (status = ''): FollowedOperation['state'] => ends.find(([word]) => word.test(status))?.[1] ?? 'running';

/**
 * Follows a long-running operation by the SDK's serialized handle, from any process. The handle
 * contains a signed URL, so it is stored and never shown.
 */
async function followOperation(
  followers: Followers,
  operation: string,
  clock: Clock,
): Promise<FollowedOperation | null> {
  const heard: Heard[] = [];
  const follower = restored(followers, operation, heard);
  if (!follower) return null;
  const { poller } = follower;
  try {
    await poller.poll();
  } catch (error) {
    // The first response is the operation's; later ones are about the cluster, which is read
    // separately.
    if (heard.length === 0 || !isAnswer(heard[0])) {
      if (isMissing(error)) return null;
      throw error;
    }
  }
  const said = heard[0]?.body as { status?: string; error?: unknown } | undefined;
  const state = stateOf(said?.status);
  return {
    state,
    error: providerError(said?.error) ?? null,
    retry_after_seconds: secondsIn(heard[0]?.headers['retry-after'], clock.nowMs()),
    operation: state === 'running' ? await poller.serialize() : operation,
  };
}

interface LatestOperation {
  status: string;
  percent: number | null;
  started_at: string | null;
}

/** Available only in preview versions of the API. */
const latest_version = '2025-05-02-preview';
const events_version = '2015-04-01';
const max_events = 30;

interface WireOperation {
  status?: string;
  percentComplete?: number;
  startTime?: string;
}

interface WireEvent {
  eventTimestamp?: string;
  operationName?: { localizedValue?: string; value?: string };
  status?: { value?: string };
  properties?: { statusMessage?: string };
}

/** Null if Azure does not offer the operation or does not know it. That says nothing about it. */
async function latestOperation(context: ContainerServiceContext, place: Place): Promise<LatestOperation | null> {
  const path = `${clusterId(place)}/operations/latest`;
  const { status, body } = await context
    .pathUnchecked(path)
    .get({ queryParameters: { 'api-version': latest_version } });
  if (status !== '200') return null;
  const { status: word = 'Unknown', percentComplete, startTime } = body as WireOperation;
  return {
    status: word,
    percent: typeof percentComplete === 'number' ? percentComplete : null,
    started_at: startTime ?? null,
  };
}

const lineOf = ({ eventTimestamp = '', operationName, status, properties }: WireEvent): string =>
  [eventTimestamp, operationName?.localizedValue ?? operationName?.value, status?.value, properties?.statusMessage]
    .filter(Boolean)
    .join(' · ');

/** The activity log of a cluster, newest first; empty if this account may not read it. */
async function recentEvents(context: ContainerServiceContext, place: Place, since: Date): Promise<string[]> {
  const { status, body } = await context
    .pathUnchecked(`/subscriptions/${place.subscription_id}/providers/Microsoft.Insights/eventtypes/management/values`)
    .get({
      queryParameters: {
        'api-version': events_version,
        $filter: `eventTimestamp ge '${since.toISOString()}' and resourceUri eq '${clusterId(place)}'`,
      },
    });
  if (status !== '200') return [];
  const { value = [] } = body as { value?: WireEvent[] };
  return value.slice(0, max_events).map(lineOf);
}

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
