/** Tests the fake ARM with the SDKs that the driver uses. */
import { randomUUID } from 'node:crypto';
import { AuthorizationManagementClient } from '@azure/arm-authorization';
import { ContainerServiceClient, type ManagedCluster, restorePoller } from '@azure/arm-containerservice';
import { ResourceManagementClient } from '@azure/arm-resources';
import { ClientSecretCredential, type TokenCredential } from '@azure/identity';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { type Arm, startArm } from './arm.ts';
import { paths } from './faults.ts';
import { refusals } from './refusal.ts';
import { tinyPace } from './subscription.ts';

let arm: Arm;
let aks: ContainerServiceClient;
let groups: ResourceManagementClient;
let roles: AuthorizationManagementClient;
let credential: TokenCredential;

const clientOptions = () => ({ endpoint: arm.url, tlsOptions: { ca: arm.ca }, retryOptions: { maxRetries: 0 } });

beforeAll(async () => {
  arm = await startArm({ pace: { retry_after: 0 } });
  credential = new ClientSecretCredential(arm.tenant_id, arm.client_id, arm.client_secret, {
    ...{ authorityHost: arm.authority_host, disableInstanceDiscovery: true, tlsOptions: { ca: arm.ca } },
  });
  aks = new ContainerServiceClient(credential, arm.subscription_id, clientOptions());
  groups = new ResourceManagementClient(credential, arm.subscription_id, clientOptions());
  roles = new AuthorizationManagementClient(credential, arm.subscription_id, { ...clientOptions(), $host: arm.url });
});
afterAll(() => arm.stop());
beforeEach(() => {
  arm.faults.clear();
  arm.release();
  Object.assign(arm.pace, { ...tinyPace, retry_after: 0 });
});

const cluster = (tags: Record<string, string> = {}): ManagedCluster => ({
  ...{ location: 'westeurope', tags, dnsPrefix: 'c', identity: { type: 'SystemAssigned' } },
  agentPoolProfiles: [
    { name: 'systempool', mode: 'System', count: 1, vmSize: 'Standard_D2s_v3' },
    { name: 'blastpool', mode: 'User', count: 10, vmSize: 'Standard_D4s_v3' },
  ],
});
const readRefusal = (request: PromiseLike<unknown>) =>
  Promise.resolve(request).then(
    () => expect.fail('the request was not refused'),
    (error) => ({ status: error.statusCode, code: error.code, retry: error.response?.headers.get('retry-after') }),
  );
const visibleGroup = async (name: string, tags = {}) => {
  await groups.resourceGroups.createOrUpdate(name, { location: 'westeurope', tags });
  await until('the group to become visible', () => groups.resourceGroups.get(name).catch(() => undefined));
};
const readAll = async <T>(pages: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const each of pages) all.push(each);
  return all;
};
const polling = { updateIntervalInMs: 10 };
/** Matches a whole part of the id, because random ids may contain any two letters. */
const resourcesNamed = (name: string) =>
  arm.resources().filter(({ id }) => id.toLowerCase().split(/[/_]/).includes(name));

describe('the fake ARM', () => {
  it('shows a group late, creates a cluster pool by pool, and deletes both', async () => {
    arm.hold('group_visible');
    await groups.resourceGroups.createOrUpdate('g1', { location: 'westeurope' });
    expect(await readRefusal(groups.resourceGroups.get('g1'))).toMatchObject({
      status: 404,
      code: 'ResourceGroupNotFound',
    });
    expect(await readRefusal(aks.managedClusters.createOrUpdate('g1', 'c1', cluster()))).toMatchObject({
      code: 'ResourceGroupNotFound',
    });
    arm.release();
    await visibleGroup('g1');
    arm.hold('pool:blastpool');
    const poller = aks.managedClusters.createOrUpdate('g1', 'c1', cluster(), polling);
    await poller.submitted();
    const states = await until('the first pool', async () => {
      const { provisioningState, powerState, agentPoolProfiles } = await aks.managedClusters.get('g1', 'c1');
      const pools = agentPoolProfiles?.map((pool) => [pool.name, pool.provisioningState, pool.count]);
      return pools?.[0]?.[1] === 'Succeeded' && { provisioningState, power: powerState?.code, pools };
    });
    expect(states).toEqual({
      ...{ provisioningState: 'Creating', power: 'Running' },
      pools: [
        ['systempool', 'Succeeded', 1],
        ['blastpool', 'Creating', 10],
      ],
    });
    expect(await readRefusal(aks.managedClusters.createOrUpdate('g1', 'c1', cluster()))).toMatchObject({
      ...{ status: 409, code: 'OperationNotAllowed', retry: '0' },
    });
    expect(await readRefusal(aks.managedClusters.delete('g1', 'c1'))).toMatchObject({ status: 409 });
    // A poller restored from the saved state of the first one continues the same operation.
    const pollerState = await poller.serialize();
    arm.release();
    const restoredPoller = restorePoller(aks, pollerState, aks.managedClusters.createOrUpdate, polling);
    expect(await restoredPoller.pollUntilDone()).toMatchObject({ provisioningState: 'Succeeded' });
    expect(arm.clustersCreated()).toBe(1);
    await aks.managedClusters.delete('g1', 'c1', polling).pollUntilDone();
    expect(await readRefusal(aks.managedClusters.get('g1', 'c1'))).toMatchObject({
      status: 404,
      code: 'ResourceNotFound',
    });
    await groups.resourceGroups.delete('g1', polling).pollUntilDone();
    expect(resourcesNamed('g1')).toEqual([]);
  });

  it('aborts an operation in progress, and refuses when there is none', async () => {
    await visibleGroup('g2');
    arm.hold('cluster_create');
    const poller = aks.managedClusters.createOrUpdate('g2', 'c2', cluster(), polling);
    await poller.submitted();
    await aks.managedClusters.abortLatestOperation('g2', 'c2', polling).pollUntilDone();
    expect(await aks.managedClusters.get('g2', 'c2')).toMatchObject({ provisioningState: 'Canceled' });
    await expect(poller.pollUntilDone()).rejects.toThrow(/cancel/i);
    expect(await readRefusal(aks.managedClusters.abortLatestOperation('g2', 'c2'))).toMatchObject({ status: 409 });
    await aks.managedClusters.delete('g2', 'c2', polling).pollUntilDone();
    expect(resourcesNamed('c2')).toEqual([]);
  });

  it('reports why a creation failed, and the percentage while it runs', async () => {
    await visibleGroup('g3');
    arm.faults.cluster_fails = refusals.quota();
    arm.hold('cluster_create');
    arm.faults.percent = 40;
    const poller = aks.managedClusters.createOrUpdate('g3', 'c3', cluster(), polling);
    await poller.submitted();
    const readLatestOperation = async (version: string) => {
      let body: unknown;
      const id = `subscriptions/${arm.subscription_id}/resourceGroups/g3/providers/Microsoft.ContainerService/managedClusters/c3/operations/latest`;
      const onResponse = ({ bodyAsText }: { bodyAsText?: string | null }) => {
        body = JSON.parse(bodyAsText ?? '{}');
      };
      await groups.resources.getById(id, version, { onResponse }).catch(() => {});
      return body;
    };
    expect(await readLatestOperation('2026-06-02-preview')).toMatchObject({
      status: 'InProgress',
      percentComplete: 40,
      startTime: expect.any(String),
    });
    expect(await readLatestOperation('2026-06-01')).toMatchObject({ error: { code: 'InvalidResourceType' } });
    arm.release();
    await expect(poller.pollUntilDone()).rejects.toThrow(/ErrCode_InsufficientVCPUQuota/);
    expect(await aks.managedClusters.get('g3', 'c3')).toMatchObject({
      ...{ provisioningState: 'Failed', status: { provisioningError: { code: 'ErrCode_InsufficientVCPUQuota' } } },
    });
  });

  it('assigns each role once, and removes assignments with their scope', async () => {
    await visibleGroup('g4');
    const scope = `subscriptions/${arm.subscription_id}/resourceGroups/g4`;
    const assignment = { roleDefinitionId: `/${scope}/r`, principalId: randomUUID(), principalType: 'User' };
    const name = randomUUID();
    arm.faults.next({ method: 'PUT', path: paths.role_assignment, effect: refusals.principalNotFound() });
    expect(await readRefusal(roles.roleAssignments.create(scope, name, assignment))).toMatchObject({
      code: 'PrincipalNotFound',
    });
    await roles.roleAssignments.create(scope, name, assignment);
    await roles.roleAssignments.create(scope, name, assignment);
    expect(await readRefusal(roles.roleAssignments.create(scope, randomUUID(), assignment))).toMatchObject({
      ...{ status: 409, code: 'RoleAssignmentExists' },
    });
    const assignments = await readAll(roles.roleAssignments.listForScope(scope, { filter: 'atScope()' }));
    expect(assignments.map((each) => each.name)).toEqual([name]);
    expect(await roles.roleAssignments.delete(scope, name)).toMatchObject({ name });
    await roles.roleAssignments.delete(scope, name);
    await roles.roleAssignments.create(scope, name, assignment);
    await groups.resourceGroups.delete('g4', polling).pollUntilDone();
    expect(resourcesNamed('g4')).toEqual([]);
  });

  it('lists by tag over several pages, and omits the tags from filtered results', async () => {
    const filter = "tagName eq 'owner' and tagValue eq 'us'";
    for (const name of ['g5', 'g6', 'g7']) await visibleGroup(name, { owner: 'us' });
    arm.plant({
      foreign: { group: 'g5', name: 'vm', type: 'Microsoft.Compute/vm', location: 'x', tags: { owner: 'us' } },
    });
    await aks.managedClusters.createOrUpdate('g5', 'c5', cluster({ owner: 'us' }), polling);
    const taggedGroups = await readAll(groups.resourceGroups.list({ filter }));
    // AKS copies the cluster's tags to the node resource group.
    expect(taggedGroups.map((group) => group.name)).toEqual(['g5', 'g6', 'g7', 'MC_g5_c5_westeurope']);
    const resources = await readAll(groups.resources.list({ filter }));
    expect(resources.map(({ name, tags }) => [name, tags])).toEqual([
      ['c5', undefined],
      ['vm', undefined],
    ]);
    const clusters = await readAll(aks.managedClusters.list());
    expect(clusters.find(({ name }) => name === 'c5')?.tags).toEqual({ owner: 'us' });
  });

  it('throttles, disconnects before and after the effect, and refuses revoked tokens and wrong secrets', async () => {
    arm.faults.next({ path: paths.group, effect: refusals.throttled(7) });
    expect(await readRefusal(groups.resourceGroups.get('g5'))).toMatchObject({ status: 429, retry: '7' });
    const put = () => groups.resourceGroups.createOrUpdate('g8', { location: 'westeurope' });
    arm.faults.next({ method: 'PUT', effect: 'cut_before' });
    await expect(put()).rejects.toThrow();
    expect(resourcesNamed('g8')).toEqual([]);
    arm.faults.next({ method: 'PUT', effect: 'cut_after' });
    await expect(put()).rejects.toThrow();
    expect(resourcesNamed('g8')).toHaveLength(1);
    arm.revokeTokens();
    expect(await readRefusal(put())).toMatchObject({ status: 401, code: 'InvalidAuthenticationToken' });
    const wrongCredential = new ClientSecretCredential(arm.tenant_id, arm.client_id, 'guessed', {
      ...{ authorityHost: arm.authority_host, disableInstanceDiscovery: true, tlsOptions: { ca: arm.ca } },
    });
    await expect(wrongCredential.getToken('https://management.azure.com/.default')).rejects.toThrow(/AADSTS7000215/);
    expect(JSON.stringify(arm.requests)).not.toMatch(/arm-planted/);
  });
});
