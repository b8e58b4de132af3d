/** Reads, creates and deletes managed clusters. No call waits for an Azure operation to end. */
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

interface OperationStatus {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  /** How long Azure asks to wait before the next poll. */
  retry_after_seconds: number | null;
  /** The SDK's serialized handle for the next poll. */
  operation: string;
}

interface PollerSdk {
  context: ContainerServiceContext;
  restorePoller: typeof restorePoller;
}

interface PollResponse {
  status: string;
  body: unknown;
  headers: Record<string, string | undefined>;
}

/** Records every response that the poller receives, because the poller hides the bodies. */
function recordResponses(context: ContainerServiceContext, responses: PollResponse[]): ContainerServiceClient {
  const pathUnchecked = (path: string) => ({
    get: async (options: object) => {
      const { status, body, headers, ...others } = await context.pathUnchecked(path).get(options);
      responses.push({ status, body, headers });
      return { status, body, headers, ...others };
    },
  });
  return { ...context, pathUnchecked } as unknown as ContainerServiceClient;
}

const refuseRestart = () => {
  throw new TypeError('a restored poller must not start the operation again');
};

/** Returns null for a handle that another version of the SDK wrote. */
function openPoller({ context, restorePoller: restore }: PollerSdk, operation: string, responses: PollResponse[]) {
  try {
    return { poller: restore(recordResponses(context, responses), operation, refuseRestart) };
  } catch {
    // The error quotes the handle, which contains a secret, so the error is dropped.
    return null;
  }
}

const isOperationResponse = (response: PollResponse | undefined) =>
  response?.status === '200' || response?.status === '202';

/** Any other status counts as running. */
const finalStates: [RegExp, OperationStatus['state']][] = [
  [/^succeeded$/i, 'succeeded'],
  [/^failed$/i, 'failed'],
  [/^cancell?ed$/i, 'canceled'],
];
const stateOf = (status = ''): OperationStatus['state'] =>
  finalStates.find(([pattern]) => pattern.test(status))?.[1] ?? 'running';

/**
 * Polls a long-running operation once, by the SDK's serialized handle, which works in any process.
 * The handle contains a signed URL, so it must not appear in messages.
 */
async function pollOperation(sdk: PollerSdk, operation: string, clock: Clock): Promise<OperationStatus | null> {
  const responses: PollResponse[] = [];
  const restored = openPoller(sdk, operation, responses);
  if (!restored) return null;
  const { poller } = restored;
  try {
    await poller.poll();
  } catch (error) {
    // The first response is about the operation. Later responses are about the cluster, which the
    // caller reads separately, so their errors are ignored.
    if (responses.length === 0 || !isOperationResponse(responses[0])) {
      if (isMissing(error)) return null;
      throw error;
    }
  }
  const [response] = responses;
  const body = response?.body as { status?: string; error?: unknown } | undefined;
  const state = stateOf(body?.status);
  return {
    state,
    error: providerError(body?.error) ?? null,
    retry_after_seconds: secondsIn(response?.headers['retry-after'], clock.nowMs()),
    operation: state === 'running' ? await poller.serialize() : operation,
  };
}

interface LatestOperation {
  status: string;
  percent: number | null;
  started_at: string | null;
}

/** Only preview versions of the API return the latest operation. */
const latest_operation_api_version = '2025-05-02-preview';
const events_api_version = '2015-04-01';
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

/** Returns null for any status but 200, because not every Azure offers this preview call. */
async function readLatestOperation(context: ContainerServiceContext, place: Place): Promise<LatestOperation | null> {
  const path = `${clusterId(place)}/operations/latest`;
  const { status, body } = await context
    .pathUnchecked(path)
    .get({ queryParameters: { 'api-version': latest_operation_api_version } });
  if (status !== '200') return null;
  const { status: operationStatus = 'Unknown', percentComplete, startTime } = body as WireOperation;
  return {
    status: operationStatus,
    percent: typeof percentComplete === 'number' ? percentComplete : null,
    started_at: startTime ?? null,
  };
}

const eventLine = ({ eventTimestamp = '', operationName, status, properties }: WireEvent): string =>
  [eventTimestamp, operationName?.localizedValue ?? operationName?.value, status?.value, properties?.statusMessage]
    .filter(Boolean)
    .join(' · ');

/** Returns the activity log of a cluster, newest first; empty if this account may not read it. */
async function readRecentEvents(context: ContainerServiceContext, place: Place, since: Date): Promise<string[]> {
  const { status, body } = await context
    .pathUnchecked(`/subscriptions/${place.subscription_id}/providers/Microsoft.Insights/eventtypes/management/values`)
    .get({
      queryParameters: {
        'api-version': events_api_version,
        $filter: `eventTimestamp ge '${since.toISOString()}' and resourceUri eq '${clusterId(place)}'`,
      },
    });
  if (status !== '200') return [];
  const { value = [] } = body as { value?: WireEvent[] };
  return value.slice(0, max_events).map(eventLine);
}

export interface ClusterPool {
  name: string;
  /** The provisioning state as AKS spells it. */
  state: string;
  count: number;
  error: ProviderError | null;
}

export interface Cluster {
  id: string;
  tags: Tags;
  /** The provisioning state as AKS spells it. */
  provisioning: string;
  /** The power state as AKS spells it. It is `Running` long before the cluster is complete. */
  power: string;
  version: string;
  pools: ClusterPool[];
  error: ProviderError | null;
  created_at: Date | null;
}

export interface AzureClusters {
  /** Returns null if the cluster does not exist. */
  get(place: Place): Promise<Cluster | null>;
  /** Returns the operation's handle. Azure refuses the request if the cluster exists. */
  create(place: Place, request: ManagedCluster): Promise<string>;
  /** Returns the operation's handle. */
  remove(place: Place): Promise<string>;
  /** Requests the abort of the running operation. Azure refuses the request if none is running. */
  abort(place: Place): Promise<void>;
  /** Returns null if Azure forgot the operation, or the SDK cannot read the handle. */
  pollOperation(operation: string): Promise<OperationStatus | null>;
  readLatestOperation(place: Place): Promise<LatestOperation | null>;
  readRecentEvents(place: Place, since: Date): Promise<string[]>;
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
    async create({ resource_group, cluster }, request) {
      // With `ifNoneMatch` Azure refuses to overwrite a cluster, also under concurrent creates.
      const poller = managedClusters.createOrUpdate(resource_group, cluster, request, { ifNoneMatch: '*' });
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
    pollOperation: (operation) => pollOperation({ context, restorePoller }, operation, account.clock),
    readLatestOperation: (place) => readLatestOperation(context, place),
    readRecentEvents: (place, since) => readRecentEvents(context, place, since),
  };
}
