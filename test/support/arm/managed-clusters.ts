/** AKS's routes for managed clusters and their agent pools. */
import { randomUUID } from 'node:crypto';
import { asyncOperationHeader, locationHeader, percentOf, statusOf } from './async-operations.ts';
import { abort, create, isBusy, refuseWhileBusy, remove } from './cluster-operations.ts';
import type { ArmFaults } from './faults.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import { groupNotFound, groupToWriteInto } from './resource-groups.ts';
import { type ArmRequest, jsonOf, type Parameters, type Route } from './route.ts';
import type { Cluster, FakeSubscription, Pool, Tags } from './subscription.ts';
import { wireCluster, wirePool } from './wire-cluster.ts';

interface WireBody {
  location: string;
  tags: Tags;
  properties: {
    kubernetesVersion?: string;
    dnsPrefix?: string;
    nodeResourceGroup?: string;
    agentPoolProfiles?: { name: string; count?: number; vmSize?: string; mode?: string }[];
  };
}

const notFound = (group: string, name: string) =>
  new Refusal(
    404,
    'ResourceNotFound',
    `The Resource 'Microsoft.ContainerService/managedClusters/${name}' under resource group '${group}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix`,
  );

const poolOf = ({
  name,
  count = 1,
  vmSize = 'Standard_D2s_v3',
  mode = 'User',
}: {
  name: string;
  count?: number;
  vmSize?: string;
  mode?: string;
}): Pool => ({
  name,
  count,
  mode,
  vm_size: vmSize,
  state: 'Creating',
});

export function managedClusterRoutes(subscription: FakeSubscription, faults: ArmFaults, url: () => string): Route[] {
  const visibleCluster = ({ group = '', cluster: name = '' }: Parameters): Cluster => {
    const parent = subscription.group(group);
    if (!parent || !subscription.isGroupVisible(parent)) throw groupNotFound(group);
    const cluster = subscription.cluster(group, name);
    if (!cluster || !subscription.isClusterVisible(cluster)) throw notFound(group, name);
    return cluster;
  };

  const refusePreconditions = ({ headers }: ArmRequest, cluster: Cluster | undefined) => {
    const etag = headers['if-match'];
    const unmet = (cluster && headers['if-none-match'] === '*') || (etag && etag !== `"${cluster?.etag}"`);
    if (unmet)
      throw new Refusal(412, 'PreconditionFailed', 'The etag of the resource is not the one that was asked for.');
  };

  const poolsAfter = (cluster: Cluster | undefined, wanted: WireBody['properties']['agentPoolProfiles']): Pool[] =>
    (wanted ?? []).map((profile) => ({
      ...poolOf(profile),
      ...(cluster?.pools.find(({ name, state }) => name === profile.name && state === 'Succeeded') && {
        state: 'Succeeded',
      }),
    }));

  const put = (request: ArmRequest, { group = '', cluster: name = '' }: Parameters): ArmAnswer => {
    groupToWriteInto(subscription, group);
    const { location, tags = {}, properties = {} } = jsonOf<WireBody>(request);
    if (!location) throw new Refusal(400, 'LocationRequired', 'The location property is required for this definition.');
    const hasSystemPool = properties.agentPoolProfiles?.some(({ mode }) => mode === 'System');
    if (!hasSystemPool) {
      throw new Refusal(400, 'InvalidParameter', 'Must define at least one agent pool with mode System.');
    }
    const existing = subscription.cluster(group, name);
    refusePreconditions(request, existing);
    if (existing) refuseWhileBusy(subscription, existing);
    const cluster: Cluster = existing ?? {
      ...{ group, name, location, tags, pools: [], latest: null, state: 'Creating', power: 'Running', etag: 0 },
      kubernetes_version: properties.kubernetesVersion ?? '1.33.4',
      node_group: properties.nodeResourceGroup ?? `MC_${group}_${name}_${location}`,
      principal_id: randomUUID(),
      put_ms: subscription.clock.nowMs(),
    };
    cluster.etag += 1;
    cluster.tags = tags;
    cluster.pools = poolsAfter(existing, properties.agentPoolProfiles);
    if (!existing) {
      subscription.clusters.push(cluster);
      subscription.groups.push({
        ...{ name: cluster.node_group, location, tags, state: 'Succeeded', put_ms: cluster.put_ms },
        visible: true,
        managed_by: subscription.clusterId(cluster),
      });
    }
    const operation = create(subscription, faults, cluster, existing ? 'Updating' : 'Creating');
    return {
      status: existing ? 200 : 201,
      headers: asyncOperationHeader(subscription, url(), operation),
      body: wireCluster(subscription, cluster),
    };
  };

  const erase = (request: ArmRequest, { group = '', cluster: name = '' }: Parameters): ArmAnswer => {
    if (!subscription.group(group)) throw groupNotFound(group);
    const cluster = subscription.cluster(group, name);
    if (!cluster) return { status: 204 };
    refusePreconditions(request, cluster);
    refuseWhileBusy(subscription, cluster);
    const operation = remove(subscription, cluster);
    return {
      status: 202,
      headers: {
        ...asyncOperationHeader(subscription, url(), operation),
        ...locationHeader(subscription, url(), operation),
      },
    };
  };

  const abortLatest = (_request: ArmRequest, parameters: Parameters): ArmAnswer => {
    const cluster = visibleCluster(parameters);
    if (!isBusy(cluster) || !['Creating', 'Updating'].includes(cluster.state)) {
      throw new Refusal(
        409,
        'OperationNotAllowed',
        `There is no operation on the managed cluster that could be aborted: it is ${cluster.state}.`,
      );
    }
    const operation = abort(subscription, cluster);
    return {
      status: 202,
      headers: {
        ...asyncOperationHeader(subscription, url(), operation),
        ...locationHeader(subscription, url(), operation),
      },
    };
  };

  /** Only preview API versions have this route, and not every region reports a percentage. */
  const latestOperation = (request: ArmRequest, parameters: Parameters): ArmAnswer => {
    const cluster = visibleCluster(parameters);
    const version = request.query.get('api-version') ?? '';
    if (faults.operations_latest === 'missing' || !version.endsWith('-preview')) {
      throw new Refusal(
        404,
        'InvalidResourceType',
        `The resource type 'managedClusters/operations' could not be found in the namespace 'Microsoft.ContainerService' for api version '${version}'.`,
      );
    }
    if (!cluster.latest) throw new Refusal(404, 'NotFound', 'No operation was found.');
    const percentComplete = faults.percent ?? percentOf(subscription, cluster.latest);
    return {
      status: 200,
      body: {
        id: `${subscription.clusterId(cluster)}/operations/${cluster.latest.id}`,
        resourceId: subscription.clusterId(cluster),
        ...statusOf(cluster.latest),
        ...(faults.operations_latest === 'percent' && { percentComplete }),
      },
    };
  };

  const pool = (_request: ArmRequest, parameters: Parameters): ArmAnswer => {
    const cluster = visibleCluster(parameters);
    const match = cluster.pools.find(({ name }) => name === parameters.pool);
    if (!match) throw new Refusal(404, 'NotFound', `The agent pool '${parameters.pool}' was not found.`);
    return { status: 200, body: wirePool(subscription, cluster, match) };
  };

  const pools = (_request: ArmRequest, parameters: Parameters): ArmAnswer => {
    const cluster = visibleCluster(parameters);
    return { status: 200, body: { value: cluster.pools.map((each) => wirePool(subscription, cluster, each)) } };
  };

  const path =
    '/subscriptions/:sub/resourcegroups/:group/providers/Microsoft.ContainerService/managedClusters/:cluster';
  return [
    { method: 'PUT', path, answer: put },
    {
      method: 'GET',
      path,
      answer: (_request, parameters) => ({ status: 200, body: wireCluster(subscription, visibleCluster(parameters)) }),
    },
    { method: 'DELETE', path, answer: erase },
    { method: 'POST', path: `${path}/abort`, answer: abortLatest },
    { method: 'GET', path: `${path}/operations/latest`, answer: latestOperation },
    { method: 'GET', path: `${path}/agentPools`, answer: pools },
    { method: 'GET', path: `${path}/agentPools/:pool`, answer: pool },
  ];
}
