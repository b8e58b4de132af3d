/**
 * Read-only calls: the state of an instance (`observe`), proof of its absence (`prove`), and
 * everything of ours (`list_owned`).
 */

import { now, secondsLater } from '../../base/clock.ts';
import { onlyProvesAbsence } from '../answers.ts';
import type {
  Diagnosis,
  DriverFailure,
  DriverTarget,
  Observation,
  OwnedResource,
  ProofKind,
  ProveOutcome,
} from '../driver.ts';
import { type AksHost, belongsToInstance, clusterType, type Placed, placesOf } from './aks-host.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { isBusy, isReady, poolsInWords } from './cluster-words.ts';
import { ownRoles } from './ensure/ensure-roles.ts';
import { followOperation, isComing } from './ensure/follow-operation.ts';
import { clusterId, nodeGroupOf } from './place.ts';
import { idsIn, isOfInstallation, tagNames } from './tags.ts';

const absent = (detail: string | null): Observation => ({ state: 'absent', present: false, ready: false, detail });

export async function observe(host: AksHost, target: DriverTarget): Promise<Observation> {
  for (const { azure, place } of await placesOf(host, target)) {
    const cluster = await azure.clusters.get(place);
    if (!cluster) continue;
    const ours = belongsToInstance(cluster, target);
    // One that was never ours only has the name. One that was still serves, even if somebody
    // changed its tags.
    if (!ours && target.state.cluster_seen !== true) continue;
    const { provisioning, power } = cluster;
    const seen = host.redact(`provisioning ${provisioning}, power ${power}; ${poolsInWords(cluster)}`);
    return {
      state: provisioning === 'Succeeded' ? power : provisioning,
      present: true,
      ready: ours && isReady(cluster),
      detail: ours ? seen : `it no longer carries the tags of this instance: put them back; ${seen}`,
    };
  }
  return absent(null);
}

interface Look {
  what: string;
  /** The resources that still exist. */
  left: string[];
}

async function looksAt(host: AksHost, placed: Placed, target: DriverTarget): Promise<Look[]> {
  const { azure, place } = placed;
  const [cluster, group, nodes, tagged, roles, coming] = await Promise.all([
    azure.clusters.get(place),
    place.own_group ? azure.groups.get(place.resource_group) : null,
    azure.groups.get(nodeGroupOf(place)),
    azure.groups.tagged(tagNames.node_instance_id, target.node_instance_id),
    ownRoles(placed, target),
    isComing(host, placed, target),
  ]);
  const of = `of subscription ${place.subscription_id}`;
  const expected = coming ? [`cluster ${place.cluster}, which Azure was asked for`] : [];
  return [
    { what: clusterId(place), left: cluster ? [`cluster ${place.cluster} (${cluster.provisioning})`] : expected },
    ...(place.own_group
      ? [
          {
            what: `resource group ${place.resource_group} ${of}`,
            left: group ? [`resource group ${place.resource_group} (${group.state})`] : [],
          },
        ]
      : []),
    {
      what: `resource group ${nodeGroupOf(place)} ${of}, and others that carry ${tagNames.node_instance_id}=${target.node_instance_id}`,
      left: [...new Set([...(nodes ? [nodes] : []), ...tagged].map(({ name }) => `resource group ${name}`))],
    },
    {
      what: `role assignments whose id follows from ${target.node_instance_id}`,
      left: roles.map(({ scope, name }) => `role assignment ${name} on ${scope}`),
    },
  ];
}

const notAbsent = (code: string, message: string): DriverFailure => ({
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
  if (kind !== 'absent') return onlyProvesAbsence('aks', kind);
  const places = await placesOf(host, target);
  const looks = (await Promise.all(places.map((placed) => looksAt(host, placed, target)))).flat();
  if (looks.length === 0) return notAbsent('nowhere_to_look', 'no pool names a subscription in which it could be');
  const left = [...new Set(looks.flatMap((look) => look.left))];
  if (left.length > 0) return notAbsent('not_absent', `still there: ${left.join(' and ')}`);
  return { outcome: 'done', proof: { kind, nonce, checked: looks.map(({ what }) => ({ what, seen: 'none' })) } };
}

export async function listOwned(host: AksHost, installation_id: string): Promise<OwnedResource[]> {
  const subscriptions = await Promise.all((await host.subscriptionsInUse()).map((id) => host.azureAt(id)));
  const listed = await Promise.all(
    subscriptions.map(async ({ groups }) => {
      const [all, tagged] = await Promise.all([
        groups.ofType(clusterType),
        groups.tagged(tagNames.installation_id, installation_id),
      ]);
      const clusters = all.filter(({ tags }) => isOfInstallation(tags, installation_id));
      const known = new Set(clusters.map(({ id }) => id.toLowerCase()));
      // AKS copies a cluster's tags to the group of its machines, which is deleted with the
      // cluster.
      const own = tagged.filter(({ managed_by }) => managed_by === null || !known.has(managed_by.toLowerCase()));
      return [
        ...clusters.map(({ id, tags }) => ({ resource: id, kind: 'cluster', ...idsIn(tags) })),
        ...own.map(({ id, tags }) => ({ resource: id, kind: 'resource_group', ...idsIn(tags) })),
      ];
    }),
  );
  return listed.flat();
}

/** How far back events matter; a failed cluster failed within its boot. */
const events_seconds = 6 * 3600;

async function attachmentsOf(
  host: AksHost,
  { azure, place }: Placed,
  cluster: Cluster,
): Promise<Diagnosis['attachments']> {
  // Both are optional: this account may not read them, or this Azure may not offer them.
  const [latest, events] = await Promise.all([
    azure.clusters.latest(place).catch(() => null),
    azure.clusters.events(place, secondsLater(now(host.clock), -events_seconds)).catch(() => []),
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

async function summaryOf(host: AksHost, { azure }: Placed, target: DriverTarget, cluster: Cluster): Promise<string> {
  const shown = `AKS state: ${cluster.provisioning}, power ${cluster.power}; ${poolsInWords(cluster)}`;
  if (isBusy(cluster) || isReady(cluster)) return shown;
  const followed = await followOperation(host, azure, target.state, { ignore_interval: true });
  const why = cluster.error ?? followed?.error ?? cluster.pools.find(({ error }) => error)?.error;
  return why ? `${shown}: ${why.code}: ${why.message}` : shown;
}

/**
 * Collects what only Azure has: why a cluster or pool failed, its latest operation, and its
 * activity log.
 */
export async function diagnose(host: AksHost, target: DriverTarget): Promise<Diagnosis> {
  for (const placed of await placesOf(host, target)) {
    const cluster = await placed.azure.clusters.get(placed.place);
    if (!cluster || !belongsToInstance(cluster, target)) continue;
    const [summary, attachments] = await Promise.all([
      summaryOf(host, placed, target, cluster),
      attachmentsOf(host, placed, cluster),
    ]);
    // Azure does not resume a cluster that it gave up, so the failure is certain.
    return {
      summary: host.redact(summary),
      certain: ['Failed', 'Canceled'].includes(cluster.provisioning),
      attachments,
    };
  }
  return { summary: 'no cluster of this instance exists', certain: false, attachments: [] };
}
