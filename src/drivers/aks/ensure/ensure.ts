/**
 * Creates an instance's resource group, cluster and role assignments, once. The progress is in
 * Azure: each call inspects Azure and does the next step, and adopts a cluster that an earlier call
 * or a crashed replica requested. `state` only saves calls and improves messages, so it may be
 * lost.
 */
import type { DriverFailure, DriverOutcome, DriverState, EnsureTarget } from '../../driver.ts';
import { codeOf, statusOf } from '../../upstream-error.ts';
import { type AksHost, belongsToInstance, inPhase, ofAnother, waitAndLook } from '../aks-host.ts';
import type { Cluster } from '../azure/azure-clusters.ts';
import { isMissing } from '../azure/azure-error.ts';
import { providerFailure } from '../azure/azure-failure.ts';
import { isBusy, isReady, markOf, partsOf, poolsInWords, progressMessage } from '../cluster-words.ts';
import { placeIn, placeState } from '../place.ts';
import { aksSpec } from '../spec.ts';
import { ensureGroup } from './ensure-group.ts';
import { ensureRoles } from './ensure-roles.ts';
import { type Followed, followOperation, isRecorded } from './follow-operation.ts';
import { type Making, phases, wantedCluster } from './plan.ts';

export function ensure(host: AksHost, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = aksSpec(target.spec);
  const place = placeIn(target, spec.subscription_id, spec.resource_group);
  const began = typeof target.state.began_at_ms === 'number';
  return inPhase(host, began ? phases.create : phases.begin, async (): Promise<DriverOutcome> => {
    const azure = await host.azureAt(place.subscription_id);
    const making = { host, target, spec, azure, place };
    const cluster = await azure.clusters.get(place);
    if (cluster && !belongsToInstance(cluster, target)) return ofAnother(`a cluster ${place.cluster}`, phases.create);
    if (cluster) return adoptCluster(making, cluster);
    if (target.state.cluster_seen === true) return clusterGone(making);
    if (!began)
      return {
        outcome: 'wait',
        retry_seconds: 0,
        message: `cluster ${place.cluster} is to be made in ${spec.location}`,
        phase: phases.begin,
        state: { ...target.state, ...placeState(place), began_at_ms: host.clock.nowMs() },
      };
    const group = await inPhase(host, phases.group, () => ensureGroup(making));
    return group ?? putCluster(making);
  });
}

const phase = phases.create;

const kept = ({ target, place }: Making): DriverState => ({ ...target.state, ...placeState(place) });

/** A deleted cluster is not recreated: the pool's `attempts` decide about another instance. */
const clusterGone = ({ place }: Making): DriverFailure =>
  failed('cluster_gone', `cluster ${place.cluster} was there and is gone: somebody deleted it`);

/** Requests the cluster, which Azure does not show yet. */
async function putCluster(making: Making): Promise<DriverOutcome> {
  const { host, target, azure, place, spec } = making;
  const followed = await followOperation(host, azure, target.state);
  if (followed?.state === 'failed' && followed.error)
    return providerFailure(followed.error, `Azure did not make cluster ${place.cluster}`, host.redact, phase);
  if (followed && followed.state !== 'canceled')
    return waitAndLook(host, `Azure took the request for cluster ${place.cluster}; it is not visible yet`, {
      phase,
      state: { ...kept(making), ...followed.keep },
    });
  const now_ms = host.clock.nowMs();
  if (!isRecorded(target.state, now_ms))
    return {
      outcome: 'wait',
      retry_seconds: 0,
      message: `cluster ${place.cluster} is asked for`,
      phase,
      state: { ...kept(making), asked_at_ms: now_ms },
    };
  try {
    const operation = await azure.clusters.create(place, wantedCluster(target, spec, place));
    return {
      outcome: 'wait',
      retry_seconds: Math.min(1, host.look_seconds),
      message: `Azure took the request for cluster ${place.cluster}; it is not visible yet`,
      phase,
      state: { ...kept(making), operation, operation_next_at_ms: now_ms, arm_began_at_ms: now_ms },
    };
  } catch (error) {
    if (statusOf(error) === 412 && codeOf(error) !== null)
      return waitAndLook(host, `cluster ${place.cluster} is already being made`, { phase });
    // A group that one part of Azure sees is not visible to all parts yet.
    if (isMissing(error))
      return waitAndLook(host, `resource group ${place.resource_group} is not visible to AKS yet`, { phase });
    throw error;
  }
}

const failed = (code: string, message: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code,
  message,
  retryable: false,
  phase,
});

const beganAtMs = ({ host, target }: Making, cluster: Cluster): number => {
  const { arm_began_at_ms } = target.state;
  if (typeof arm_began_at_ms === 'number') return arm_began_at_ms;
  return cluster.created_at?.getTime() ?? host.clock.nowMs();
};

/**
 * Continues with a cluster that exists already, for example requested by a replica that crashed.
 */
async function adoptCluster(making: Making, cluster: Cluster): Promise<DriverOutcome> {
  if (isReady(cluster)) return settled(making, cluster);
  if (isBusy(cluster)) return underway(making, cluster);
  return ended(making, cluster);
}

async function underway(making: Making, cluster: Cluster): Promise<DriverOutcome> {
  const { host, target, azure, place } = making;
  const began_at_ms = beganAtMs(making, cluster);
  const [followed, latest] = await Promise.all([
    followOperation(host, azure, target.state),
    // Optional: without it there is no percentage.
    azure.clusters.latest(place).catch(() => null),
  ]);
  const percent = latest?.percent ?? null;
  return waitAndLook(host, progressMessage(cluster, (host.clock.nowMs() - began_at_ms) / 1000, percent), {
    phase,
    mark: markOf(cluster, percent),
    parts: redactedParts(host, cluster),
    state: { ...kept(making), ...followed?.keep, cluster_seen: true, arm_began_at_ms: began_at_ms },
  });
}

const redactedParts = (host: AksHost, cluster: Cluster) =>
  partsOf(cluster).map(({ detail, ...part }) => ({ ...part, ...(detail && { detail: host.redact(detail) }) }));

/** The failure of a cluster that Azure has stopped working on before it was ready. */
async function ended(making: Making, cluster: Cluster): Promise<DriverOutcome> {
  const { host, azure, target, place } = making;
  const bad = cluster.pools.find(({ state }) => state === 'Failed');
  if (cluster.provisioning === 'Succeeded' && !bad)
    return waitAndLook(host, `AKS state: Succeeded, power ${cluster.power} · ${poolsInWords(cluster)}`, {
      phase,
      mark: markOf(cluster, null),
      parts: redactedParts(host, cluster),
      state: { ...kept(making), cluster_seen: true },
    });
  if (cluster.provisioning === 'Canceled')
    return failed('Canceled', `AKS state: Canceled: the making of cluster ${place.cluster} was aborted`);
  const followed: Followed | null = await followOperation(host, azure, target.state, { ignore_interval: true });
  const why = cluster.error ?? followed?.error ?? bad?.error;
  const about = bad
    ? `AKS state: ${cluster.provisioning}, agent pool ${bad.name} is Failed`
    : `AKS state: ${cluster.provisioning}`;
  if (why) return providerFailure(why, about, host.redact, phase);
  return failed(bad ? 'AgentPoolFailed' : 'ClusterFailed', `${about}; Azure gives no reason`);
}

const rolesInWords = ({ spec: { roles = [] } }: Making) =>
  roles.length === 0 ? 'its pool gives no roles on it' : `its role assignments follow (${roles.length})`;

/**
 * Created and running; only the roles are left. They are announced first, as a step of their own.
 */
function settled(making: Making, cluster: Cluster): Promise<DriverOutcome> {
  const { host, place, target } = making;
  const { operation: _over, operation_next_at_ms: _then, ...state } = target.state;
  const parts = redactedParts(host, cluster);
  const keep = { ...state, ...placeState(place), cluster_seen: true, roles_begun: true };
  return inPhase(host, phases.roles, async (): Promise<DriverOutcome> => {
    if (target.state.roles_begun !== true) {
      const message = `cluster ${place.cluster} is made and runs; ${rolesInWords(making)}`;
      return { outcome: 'wait', retry_seconds: 0, message, phase: phases.roles, parts, state: keep };
    }
    const unsettled = await ensureRoles(making);
    if (unsettled) return unsettled.outcome === 'failed' ? unsettled : { ...unsettled, parts, state: keep };
    const nodes = cluster.pools.reduce((sum, { count }) => sum + count, 0);
    return {
      outcome: 'done',
      message: `cluster ${place.cluster} runs Kubernetes ${cluster.version} on ${nodes} machines in ${cluster.pools.length} pools`,
      phase: phases.done,
      parts,
      state: keep,
    };
  });
}
