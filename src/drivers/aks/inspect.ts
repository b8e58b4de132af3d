/**
 * The calls that only read: the state of an instance (`inspect`), its failure (`diagnose`), the
 * proof of its absence (`prove`), and our clusters and resource groups (`list_owned`).
 */

import { now, secondsLater } from '../../base/clock.ts';
import { absenceOnlyFailure } from '../answers.ts';
import type {
  Diagnosis,
  DriverFailure,
  DriverTarget,
  Observation,
  OwnedResource,
  ProofKind,
  ProveOutcome,
} from '../driver.ts';
import { type AksHost, type AzurePlace, belongsToInstance, clusterType, findPlaces } from './aks-host.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { describePools, isBusy, isReady } from './cluster-state.ts';
import { findInstanceRoles } from './ensure/ensure-roles.ts';
import { followOperation, isClusterPending } from './ensure/follow-operation.ts';
import { clusterId, nodeGroupOf } from './place.ts';
import { areInstallationTags, idsIn, tagNames } from './tags.ts';

const absentObservation = (detail: string | null): Observation => ({
  state: 'absent',
  present: false,
  ready: false,
  detail,
});

export async function inspect(host: AksHost, target: DriverTarget): Promise<Observation> {
  for (const { azure, place } of await findPlaces(host, target)) {
    const cluster = await azure.clusters.get(place);
    if (!cluster) continue;
    const isOurs = belongsToInstance(cluster, target);
    // Without our tags, a cluster counts only if we saw it with our tags before. That cluster still
    // runs our node, so it must not be reported as absent.
    if (!isOurs && target.state.cluster_seen !== true) continue;
    const { provisioning, power } = cluster;
    const description = host.redact(`provisioning ${provisioning}, power ${power}; ${describePools(cluster)}`);
    return {
      state: provisioning === 'Succeeded' ? power : provisioning,
      present: true,
      ready: isOurs && isReady(cluster),
      detail: isOurs
        ? description
        : `the cluster does not have the tags of this instance any more: restore them; ${description}`,
    };
  }
  return absentObservation(null);
}

interface AbsenceCheck {
  /** Where the check looked for resources. */
  what: string;
  /** The resources that still exist. */
  remaining: string[];
}

async function checkAbsence(host: AksHost, azurePlace: AzurePlace, target: DriverTarget): Promise<AbsenceCheck[]> {
  const { azure, place } = azurePlace;
  const [cluster, group, nodeGroup, taggedGroups, roles, isPending] = await Promise.all([
    azure.clusters.get(place),
    place.own_group ? azure.groups.get(place.resource_group) : null,
    azure.groups.get(nodeGroupOf(place)),
    azure.groups.listByTag(tagNames.node_instance_id, target.node_instance_id),
    findInstanceRoles(azurePlace, target),
    isClusterPending(host, azurePlace, target),
  ]);
  const ofSubscription = `of subscription ${place.subscription_id}`;
  const pending = isPending ? [`cluster ${place.cluster}, which was requested and is not visible yet`] : [];
  return [
    { what: clusterId(place), remaining: cluster ? [`cluster ${place.cluster} (${cluster.provisioning})`] : pending },
    ...(place.own_group
      ? [
          {
            what: `resource group ${place.resource_group} ${ofSubscription}`,
            remaining: group ? [`resource group ${place.resource_group} (${group.state})`] : [],
          },
        ]
      : []),
    {
      what: `resource group ${nodeGroupOf(place)} ${ofSubscription}, and others with the tag ${tagNames.node_instance_id}=${target.node_instance_id}`,
      remaining: [
        ...new Set([...(nodeGroup ? [nodeGroup] : []), ...taggedGroups].map(({ name }) => `resource group ${name}`)),
      ],
    },
    {
      what: `role assignments whose id is derived from ${target.node_instance_id}`,
      remaining: roles.map(({ scope, name }) => `role assignment ${name} on ${scope}`),
    },
  ];
}

const notAbsentFailure = (code: string, message: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code,
  message,
  retryable: true,
});

export async function prove(
  host: AksHost,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return absenceOnlyFailure('aks', kind);
  const places = await findPlaces(host, target);
  const checks = (await Promise.all(places.map((azurePlace) => checkAbsence(host, azurePlace, target)))).flat();
  if (checks.length === 0)
    return notAbsentFailure('nowhere_to_look', 'no pool names a subscription that could be checked');
  const remaining = [...new Set(checks.flatMap((check) => check.remaining))];
  if (remaining.length > 0) return notAbsentFailure('not_absent', `still there: ${remaining.join(' and ')}`);
  return { outcome: 'done', proof: { kind, nonce, checked: checks.map(({ what }) => ({ what, seen: 'none' })) } };
}

export async function listOwned(host: AksHost, installation_id: string): Promise<OwnedResource[]> {
  const subscriptions = await Promise.all((await host.subscriptionsInUse()).map((id) => host.azureAt(id)));
  const resources = await Promise.all(
    subscriptions.map(async ({ groups }) => {
      const [allClusters, taggedGroups] = await Promise.all([
        groups.listByType(clusterType),
        groups.listByTag(tagNames.installation_id, installation_id),
      ]);
      const clusters = allClusters.filter(({ tags }) => areInstallationTags(tags, installation_id));
      const clusterIds = new Set(clusters.map(({ id }) => id.toLowerCase()));
      // AKS copies a cluster's tags to the resource group of its machines. That group is deleted
      // with the cluster, so it is not listed separately.
      const ownGroups = taggedGroups.filter(
        ({ managed_by }) => managed_by === null || !clusterIds.has(managed_by.toLowerCase()),
      );
      return [
        ...clusters.map(({ id, tags }) => ({ resource: id, kind: 'cluster', ...idsIn(tags) })),
        ...ownGroups.map(({ id, tags }) => ({ resource: id, kind: 'resource_group', ...idsIn(tags) })),
      ];
    }),
  );
  return resources.flat();
}

/** Longer than the creation of a cluster, so that the events of the whole creation are read. */
const events_seconds = 6 * 3600;

async function readAttachments(
  host: AksHost,
  { azure, place }: AzurePlace,
  cluster: Cluster,
): Promise<Diagnosis['attachments']> {
  // Errors are ignored, because this account may not read these texts, or Azure may not offer them.
  const [latest, events] = await Promise.all([
    azure.clusters.readLatestOperation(place).catch(() => null),
    azure.clusters.readRecentEvents(place, secondsLater(now(host.clock), -events_seconds)).catch(() => []),
  ]);
  const pools = cluster.pools.map(({ name, state, count, error }) =>
    [`${name} · ${state} · ${count}n`, ...(error ? [`${error.code}: ${error.message}`] : [])].join(' · '),
  );
  const texts = {
    'agent-pools.txt': pools.join('\n'),
    'latest-operation.json': latest ? JSON.stringify(latest, null, 2) : '',
    'activity-log.txt': events.join('\n'),
  };
  return Object.entries(texts)
    .filter(([, text]) => text !== '')
    .map(([name, text]) => ({ name, text: host.redact(text) }));
}

async function readSummary(
  host: AksHost,
  { azure }: AzurePlace,
  target: DriverTarget,
  cluster: Cluster,
): Promise<string> {
  const summary = `AKS state: ${cluster.provisioning}, power ${cluster.power}; ${describePools(cluster)}`;
  if (isBusy(cluster) || isReady(cluster)) return summary;
  const followed = await followOperation(host, azure, target.state, { ignore_interval: true });
  const reason = cluster.error ?? followed?.error ?? cluster.pools.find(({ error }) => error)?.error;
  return reason ? `${summary}: ${reason.code}: ${reason.message}` : summary;
}

/**
 * Collects the details that only Azure has: why a cluster or pool failed, the latest operation, and
 * the activity log.
 */
export async function diagnose(host: AksHost, target: DriverTarget): Promise<Diagnosis> {
  for (const azurePlace of await findPlaces(host, target)) {
    const cluster = await azurePlace.azure.clusters.get(azurePlace.place);
    if (!cluster || !belongsToInstance(cluster, target)) continue;
    const [summary, attachments] = await Promise.all([
      readSummary(host, azurePlace, target, cluster),
      readAttachments(host, azurePlace, cluster),
    ]);
    // Azure does not resume a failed or canceled creation, so the failure is certain.
    return {
      summary: host.redact(summary),
      certain: ['Failed', 'Canceled'].includes(cluster.provisioning),
      attachments,
    };
  }
  return { summary: 'no cluster of this instance exists', certain: false, attachments: [] };
}
