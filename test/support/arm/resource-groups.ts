/** Resource groups: created at once, visible a little later, deleted with everything in them. */
import { groupLocationHeader, newOperation } from './async-operations.ts';
import { Refusal } from './refusal.ts';
import { type ArmRequest, jsonOf, type Route } from './route.ts';
import { type FakeSubscription, type Group, sameName, type Tags } from './subscription.ts';

export const groupNotFound = (name: string) =>
  new Refusal(404, 'ResourceGroupNotFound', `Resource group '${name}' could not be found.`);

export const wireGroup = (subscription: FakeSubscription, group: Group) => ({
  id: subscription.groupId(group.name),
  name: group.name,
  type: 'Microsoft.Resources/resourceGroups',
  location: group.location,
  ...(group.managed_by && { managedBy: group.managed_by }),
  tags: group.tags,
  properties: { provisioningState: group.state },
});

/** Returns a group that accepts writes, or throws ARM's error. */
export function groupToWriteInto(subscription: FakeSubscription, name: string): Group {
  const group = subscription.group(name);
  if (!group || !subscription.isGroupVisible(group)) throw groupNotFound(name);
  if (group.state === 'Deleting') {
    throw new Refusal(
      409,
      'ResourceGroupBeingDeleted',
      `The resource group '${name}' is in deprovisioning state and cannot perform this operation.`,
      subscription.pace.retry_after,
    );
  }
  return group;
}

function put(subscription: FakeSubscription, name: string, request: ArmRequest) {
  const { location, tags = {} } = jsonOf<{ location: string; tags: Tags }>(request);
  if (!location) throw new Refusal(400, 'LocationRequired', 'The location property is required for this definition.');
  const existing = subscription.group(name);
  if (!existing) {
    const group: Group = { name, location, tags, state: 'Succeeded', put_ms: subscription.clock.nowMs() };
    subscription.groups.push(group);
    return { status: 201, body: wireGroup(subscription, group) };
  }
  if (existing.state === 'Deleting') groupToWriteInto(subscription, name);
  if (!sameName(existing.location, location)) {
    throw new Refusal(
      409,
      'InvalidResourceGroupLocation',
      `Invalid resource group location '${location}'. The Resource group already exists in location '${existing.location}'.`,
    );
  }
  existing.tags = tags;
  return { status: 200, body: wireGroup(subscription, existing) };
}

function visibleGroup(subscription: FakeSubscription, name: string): Group {
  const group = subscription.group(name);
  if (!group || !subscription.isGroupVisible(group)) throw groupNotFound(name);
  return group;
}

function remove(subscription: FakeSubscription, url: string, name: string) {
  const group = visibleGroup(subscription, name);
  if (group.state === 'Deleting') return { status: 202, headers: {} };
  const busyCluster = subscription.clusters.find(
    (cluster) => sameName(cluster.group, name) && cluster.latest?.status === 'InProgress',
  );
  if (busyCluster && busyCluster.state !== 'Deleting') {
    throw new Refusal(
      409,
      'ResourceGroupDeletionBlocked',
      `Deletion of resource group '${name}' failed as resources with identifiers '${busyCluster.name}' could not be deleted: another operation (${busyCluster.state}) is in progress.`,
      subscription.pace.retry_after,
    );
  }
  group.state = 'Deleting';
  const operation = newOperation(subscription, group.location, {
    seconds: () => subscription.seconds('group_delete', subscription.pace.group_delete),
    finish: () => {
      subscription.removeGroup(group);
      return undefined;
    },
  });
  return { status: 202, headers: groupLocationHeader(subscription, url, operation) };
}

export function resourceGroupRoutes(subscription: FakeSubscription, url: () => string): Route[] {
  const path = '/subscriptions/:sub/resourcegroups/:group';
  return [
    { method: 'PUT', path, answer: (request, { group = '' }) => put(subscription, group, request) },
    {
      method: 'GET',
      path,
      answer: (_request, { group = '' }) => ({
        status: 200,
        body: wireGroup(subscription, visibleGroup(subscription, group)),
      }),
    },
    {
      method: 'HEAD',
      path,
      answer: (_request, { group = '' }) => ({ status: visibleGroup(subscription, group) && 204 }),
    },
    { method: 'DELETE', path, answer: (_request, { group = '' }) => remove(subscription, url(), group) },
  ];
}
