/** Lists the contents of a subscription by tag and type, in pages. */
import type { ArmAnswer } from './refusal.ts';
import { wireGroup } from './resource-groups.ts';
import type { ArmRequest, Route } from './route.ts';
import { type FakeSubscription, sameName, type Tags } from './subscription.ts';
import { wireCluster } from './wire-cluster.ts';

/** Small, so that a caller that ignores the next page is caught. */
const page_size = 2;

interface Filter {
  tag: { name: string; value: string | undefined } | null;
  type: string | null;
}

function readFilter(request: ArmRequest): Filter {
  const text = request.query.get('$filter') ?? '';
  const readOperand = (word: string) =>
    new RegExp(`${word} eq '((?:[^']|'')*)'`, 'i').exec(text)?.[1]?.replaceAll("''", "'");
  const name = readOperand('tagName');
  return {
    tag: name === undefined ? null : { name, value: readOperand('tagValue') },
    type: readOperand('resourceType') ?? null,
  };
}

/** Tag names are case-insensitive, tag values are not. */
const hasTag = (tags: Tags, { tag }: Filter) =>
  !tag ||
  Object.entries(tags).some(
    ([name, value]) => sameName(name, tag.name) && (tag.value === undefined || value === tag.value),
  );

function page(request: ArmRequest, all: object[]): ArmAnswer {
  const from = Number(request.query.get('$skiptoken') ?? 0);
  const next = new URL(request.url);
  next.searchParams.set('$skiptoken', String(from + page_size));
  const more = from + page_size < all.length;
  return {
    status: 200,
    body: { value: all.slice(from, from + page_size), ...(more && { nextLink: next.toString() }) },
  };
}

export function listingRoutes(subscription: FakeSubscription): Route[] {
  const listResources = () => [
    ...subscription.clusters
      .filter((cluster) => subscription.isClusterVisible(cluster))
      .map((cluster) => ({ group: cluster.group, wire: wireCluster(subscription, cluster) })),
    ...subscription.foreign.map((each) => ({
      group: each.group,
      wire: {
        id: subscription.foreignId(each),
        name: each.name,
        type: each.type,
        location: each.location,
        tags: each.tags,
      },
    })),
  ];

  /** ARM omits the tags from results that were filtered by tag. */
  const resources = (request: ArmRequest, group?: string): ArmAnswer => {
    const filter = readFilter(request);
    const matches = listResources().filter(
      ({ group: resourceGroup, wire }) =>
        hasTag(wire.tags, filter) &&
        (!filter.type || sameName(wire.type, filter.type)) &&
        (!group || sameName(resourceGroup, group)),
    );
    const wires = matches.map(({ wire: { id, name, type, location, tags } }) => ({
      ...{ id, name, type, location },
      ...(!filter.tag && { tags }),
    }));
    return page(request, wires);
  };

  const clusters = (request: ArmRequest, group?: string): ArmAnswer =>
    page(
      request,
      subscription.clusters
        .filter((cluster) => subscription.isClusterVisible(cluster) && (!group || sameName(cluster.group, group)))
        .map((cluster) => wireCluster(subscription, cluster)),
    );

  const groups = (request: ArmRequest): ArmAnswer => {
    const filter = readFilter(request);
    const matches = subscription.groups.filter(
      (group) => subscription.isGroupVisible(group) && hasTag(group.tags, filter),
    );
    return page(
      request,
      matches.map((group) => wireGroup(subscription, group)),
    );
  };

  const subscriptionPath = '/subscriptions/:sub';
  const inGroup = `${subscriptionPath}/resourcegroups/:group`;
  const aksPath = 'providers/Microsoft.ContainerService/managedClusters';
  return [
    { method: 'GET', path: `${subscriptionPath}/resourcegroups`, answer: groups },
    { method: 'GET', path: `${subscriptionPath}/resources`, answer: (request) => resources(request) },
    { method: 'GET', path: `${inGroup}/resources`, answer: (request, { group }) => resources(request, group) },
    { method: 'GET', path: `${subscriptionPath}/${aksPath}`, answer: (request) => clusters(request) },
    { method: 'GET', path: `${inGroup}/${aksPath}`, answer: (request, { group }) => clusters(request, group) },
  ];
}
