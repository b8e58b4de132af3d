/**
 * Collects what only Azure has: why a cluster or pool failed, its latest operation, and its
 * activity log.
 */
import { now, secondsLater } from '../../base/clock.ts';
import type { Diagnosis, DriverTarget } from '../driver.ts';
import { type AksHost, isOurs, type Placed, placesOf } from './aks-host.ts';
import type { Cluster } from './azure/azure-clusters.ts';
import { isBusy, isReady, poolsInWords } from './cluster-words.ts';
import { follow } from './ensure/follow.ts';

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
  const followed = await follow(host, azure, target.state, { ignore_interval: true });
  const why = cluster.error ?? followed?.error ?? cluster.pools.find(({ error }) => error)?.error;
  return why ? `${shown}: ${why.code}: ${why.message}` : shown;
}

export async function diagnose(host: AksHost, target: DriverTarget): Promise<Diagnosis> {
  for (const placed of await placesOf(host, target)) {
    const cluster = await placed.azure.clusters.get(placed.place);
    if (!cluster || !isOurs(cluster, target)) continue;
    const [summary, attachments] = await Promise.all([
      summaryOf(host, placed, target, cluster),
      attachmentsOf(host, placed, cluster),
    ]);
    // Azure does not resume by itself what it gave up.
    return {
      summary: host.redact(summary),
      certain: ['Failed', 'Canceled'].includes(cluster.provisioning),
      attachments,
    };
  }
  return { summary: 'no cluster of this instance exists', certain: false, attachments: [] };
}
