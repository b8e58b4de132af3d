/** Lists the contents of a subscription by tag and type, in pages. */
import type { ArmAnswer } from './refusal.ts';
import { wireGroup } from './resource-groups.ts';
import type { ArmRequest, Route } from './route.ts';
import { type FakeSubscription, sameName, type Tags } from './subscription.ts';
import { wireCluster } from './wire-cluster.ts';

/** Small, so that a caller that ignores the next page is caught. */
const page_size = 2;

interface Wanted {
  tag: { name: string; value: string | undefined } | null;
  type: string | null;
}

function wantedOf(request: ArmRequest): Wanted {
  const filter = request.query.get('$filter') ?? '';
  const named = (word: string) =>
    new RegExp(`${word} eq '((?:[^']|'')*)'`, 'i').exec(filter)?.[1]?.replaceAll("''", "'");
  const name = named('tagName');
  return { tag: name === undefined ? null : { name, value: named('tagValue') }, type: named('resourceType') ?? null };
}

/** Tag names are case-insensitive, tag values are not. */
const carries = (tags: Tags, { tag }: Wanted) =>
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
  const generic = () => [
    ...subscription.clusters
      .filter((cluster) => subscription.clusterVisible(cluster))
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
    const wanted = wantedOf(request);
    const found = generic().filter(
      ({ group: inside, wire }) =>
        carries(wire.tags, wanted) &&
        (!wanted.type || sameName(wire.type, wanted.type)) &&
        (!group || sameName(inside, group)),
    );
    const wires = found.map(({ wire: { id, name, type, location, tags } }) => ({
      ...{ id, name, type, location },
      ...(!wanted.tag && { tags }),
    }));
    return page(request, wires);
  };

  const clusters = (request: ArmRequest, group?: string): ArmAnswer =>
    page(
      request,
      subscription.clusters
        .filter((cluster) => subscription.clusterVisible(cluster) && (!group || sameName(cluster.group, group)))
        .map((cluster) => wireCluster(subscription, cluster)),
    );

  const groups = (request: ArmRequest): ArmAnswer => {
    const wanted = wantedOf(request);
    const found = subscription.groups.filter(
      (group) => subscription.groupVisible(group) && carries(group.tags, wanted),
    );
    return page(
      request,
      found.map((group) => wireGroup(subscription, group)),
    );
  };

  const subscriptionPath = '/subscriptions/:sub';
  const inGroup = `${subscriptionPath}/resourcegroups/:group`;
  const ofAks = 'providers/Microsoft.ContainerService/managedClusters';
  return [
    { method: 'GET', path: `${subscriptionPath}/resourcegroups`, answer: groups },
    { method: 'GET', path: `${subscriptionPath}/resources`, answer: (request) => resources(request) },
    { method: 'GET', path: `${inGroup}/resources`, answer: (request, { group }) => resources(request, group) },
    { method: 'GET', path: `${subscriptionPath}/${ofAks}`, answer: (request) => clusters(request) },
    { method: 'GET', path: `${inGroup}/${ofAks}`, answer: (request, { group }) => clusters(request, group) },
  ];
}
