/**
 * A fake Azure Resource Manager in the test's process. It serves HTTPS with its own CA, because the
 * SDK sends tokens only over HTTPS. It implements resource groups, AKS and role assignments as far
 * as the driver uses them.
 */

import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { certificateAuthority } from '../../../src/probe/testing/self-signed.ts';
import { asyncOperationRoutes } from './async-operations.ts';
import { type ArmFaults, plannedFaults } from './faults.ts';
import { httpFront, type RecordedRequest } from './http-front.ts';
import { listingRoutes } from './listing.ts';
import { managedClusterRoutes } from './managed-clusters.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import { resourceGroupRoutes } from './resource-groups.ts';
import { assignmentId, roleAssignmentRoutes } from './role-assignments.ts';
import { type ArmRequest, router } from './route.ts';
import {
  type ArmPace,
  type ArmPhase,
  type Cluster,
  FakeSubscription,
  type Foreign,
  sameName,
  type Tags,
  tinyPace,
} from './subscription.ts';
import { tokenEndpoint } from './token-endpoint.ts';

export interface ArmResource {
  /**
   * `node_group` is the group that AKS creates for a cluster's machines and deletes with the
   * cluster.
   */
  kind: 'group' | 'node_group' | 'cluster' | 'agent_pool' | 'role_assignment' | 'foreign';
  id: string;
  tags: Tags;
  state: string;
}

export interface Arm {
  /** The resource manager's endpoint. */
  url: string;
  authority_host: string;
  ca: string;
  /** For `NODE_EXTRA_CA_CERTS` of spawned servers. */
  ca_file: string;
  subscription_id: string;
  tenant_id: string;
  client_id: string;
  /** Has a recognisable prefix, so that a test can search for leaks. */
  client_secret: string;
  environment(): Record<string, string>;
  pace: ArmPace;
  faults: ArmFaults;
  requests: RecordedRequest[];
  /** Counts the PUTs that started the creation of a cluster. */
  clustersCreated(): number;
  resources(): ArmResource[];
  /** Adds a group or a foreign resource without a request. */
  plant(what: { group: string; location: string; tags?: Tags } | { foreign: Foreign }): void;
  /** Changes a cluster from outside the driver. */
  alter(cluster: { group?: string; name: string }, change: Partial<Pick<Cluster, 'state' | 'power' | 'tags'>>): void;
  /** Stops progress at this phase until the returned function is called. */
  hold(phase: ArmPhase): () => void;
  /** Ends the hold at this phase, or at all phases. */
  release(phase?: ArmPhase): void;
  revokeTokens(): void;
  /** Removes all resources, faults, holds and recorded requests, for the next test. */
  reset(): void;
  down(): Promise<void>;
  up(): Promise<void>;
  /** Accepts requests without answering until `resume` is called. */
  hang(): void;
  resume(): void;
  stop(): Promise<void>;
}

function refuseWithoutVersion({ query, method, path }: ArmRequest): void {
  if (/^\d{4}-\d{2}-\d{2}(-preview)?$/.test(query.get('api-version') ?? '')) return;
  throw new Refusal(
    400,
    'MissingApiVersionParameter',
    `The api-version query parameter (?api-version=) is required for all requests: ${method} ${path}`,
  );
}

export async function startArm(options: { clock?: Clock; pace?: Partial<ArmPace> } = {}): Promise<Arm> {
  const clock = options.clock ?? systemClock;
  const directory = {
    tenant_id: randomUUID(),
    client_id: randomUUID(),
    client_secret: `arm-planted-secret-${randomBytes(12).toString('hex')}`,
  };
  const initialPace = { ...tinyPace, ...options.pace };
  const subscription = new FakeSubscription(clock, randomUUID(), { ...initialPace });
  const faults = plannedFaults();
  const authority = certificateAuthority('Slipway test Azure');
  let url = '';

  const tokens = tokenEndpoint(directory, clock, () => url);
  const signIn = router(tokens.routes);
  const manage = router([
    ...roleAssignmentRoutes(subscription, faults),
    ...asyncOperationRoutes(subscription),
    ...managedClusterRoutes(subscription, faults, () => url),
    ...listingRoutes(subscription),
    ...resourceGroupRoutes(subscription, () => url),
  ]);

  const answer = (request: ArmRequest): ArmAnswer => {
    const tokenAnswer = signIn(request);
    if (tokenAnswer) return tokenAnswer;
    const { authorization } = request.headers;
    tokens.admit(typeof authorization === 'string' ? authorization : undefined);
    refuseWithoutVersion(request);
    if (!request.path.toLowerCase().startsWith(`/subscriptions/${subscription.subscription_id}`)) {
      throw new Refusal(404, 'SubscriptionNotFound', 'The subscription could not be found.');
    }
    subscription.settle();
    const managementAnswer = manage(request);
    if (managementAnswer) return managementAnswer;
    throw new Refusal(404, 'InvalidResourceType', `The fake ARM has no such route: ${request.method} ${request.path}`);
  };

  const front = await httpFront(authority.issue('localhost', '127.0.0.1'), faults, answer);
  url = `https://localhost:${front.port}`;
  const scratch = await mkdtemp(join(tmpdir(), 'slipway-arm-'));
  const ca_file = join(scratch, 'ca.pem');
  await writeFile(ca_file, authority.cert);

  const resources = (): ArmResource[] => {
    subscription.settle();
    return [
      ...subscription.groups.map(({ name, tags, state, managed_by }) => ({
        ...{ id: subscription.groupId(name), tags, state },
        kind: managed_by ? ('node_group' as const) : ('group' as const),
      })),
      ...subscription.clusters.flatMap((cluster) => [
        { kind: 'cluster' as const, id: subscription.clusterId(cluster), tags: cluster.tags, state: cluster.state },
        ...cluster.pools.map(({ name, state }) => ({
          ...{
            kind: 'agent_pool' as const,
            id: `${subscription.clusterId(cluster)}/agentPools/${name}`,
            tags: {},
            state,
          },
        })),
      ]),
      ...subscription.assignments.map((each) => ({
        ...{ kind: 'role_assignment' as const, id: assignmentId(each), tags: {}, state: 'Succeeded' },
      })),
      ...subscription.foreign.map((each) => ({
        ...{ kind: 'foreign' as const, id: subscription.foreignId(each), tags: each.tags, state: 'Succeeded' },
      })),
    ];
  };

  return {
    ...{ url, authority_host: url, ca: authority.cert, ca_file, subscription_id: subscription.subscription_id },
    ...directory,
    environment: () => ({
      AZURE_TENANT_ID: directory.tenant_id,
      AZURE_CLIENT_ID: directory.client_id,
      AZURE_CLIENT_SECRET: directory.client_secret,
      AZURE_AUTHORITY_HOST: url,
      NODE_EXTRA_CA_CERTS: ca_file,
      SLIPWAY_AZURE_ENDPOINT: url,
    }),
    ...{ pace: subscription.pace, faults, requests: front.requests, resources },
    clustersCreated: () =>
      front.requests.filter(
        ({ method, path, status }) => method === 'PUT' && /\/managedclusters\/[^/]+$/i.test(path) && status === 201,
      ).length,
    plant: (what) => {
      if ('foreign' in what) return void subscription.foreign.push(what.foreign);
      const { group: name, location, tags = {} } = what;
      subscription.groups.push({ name, location, tags, state: 'Succeeded', put_ms: 0, visible: true });
    },
    alter: ({ group, name }, change) => {
      const cluster = subscription.clusters.find(
        (each) => sameName(each.name, name) && (!group || sameName(each.group, group)),
      );
      if (!cluster) throw new Error(`no cluster ${name}`);
      Object.assign(cluster, change);
    },
    hold: (phase) => {
      // Operations that were already due finish first.
      subscription.settle();
      subscription.heldPhases.add(phase);
      return () => void subscription.heldPhases.delete(phase);
    },
    release: (phase) => void (phase ? subscription.heldPhases.delete(phase) : subscription.heldPhases.clear()),
    revokeTokens: tokens.revokeAll,
    reset: () => {
      subscription.empty();
      faults.clear();
      front.resume();
      front.requests.length = 0;
      Object.assign(subscription.pace, initialPace);
    },
    ...{ down: front.down, up: front.up, hang: front.hang, resume: front.resume },
    stop: async () => {
      await front.stop();
      await rm(scratch, { recursive: true, force: true });
    },
  };
}
