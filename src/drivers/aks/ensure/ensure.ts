/**
 * Creates an instance's resource group, cluster and role assignments. Each call inspects Azure and
 * does the next step, so a cluster that a crashed replica requested is adopted. If `state` is lost,
 * no second cluster is created, because the name is derived from the instance's id.
 */
import type { DriverFailure, DriverOutcome, DriverState, EnsureTarget } from '../../driver.ts';
import { codeOf, statusOf } from '../../upstream-error.ts';
import { type AksHost, belongsToInstance, nameTakenFailure, runInPhase, waitAndPoll } from '../aks-host.ts';
import type { Cluster } from '../azure/azure-clusters.ts';
import { isMissing } from '../azure/azure-error.ts';
import { providerFailure } from '../azure/azure-failure.ts';
import { describePools, isBusy, isReady, markOf, progressMessage, progressParts } from '../cluster-state.ts';
import { placeIn, placeState } from '../place.ts';
import { aksSpec } from '../spec.ts';
import { ensureGroup } from './ensure-group.ts';
import { ensureRoles } from './ensure-roles.ts';
import { followOperation, isRequestRecorded, type PolledOperation } from './follow-operation.ts';
import { buildClusterRequest, type EnsureContext, phases } from './plan.ts';

export function ensure(host: AksHost, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = aksSpec(target.spec);
  const place = placeIn(target, spec.subscription_id, spec.resource_group);
  const began = typeof target.state.began_at_ms === 'number';
  return runInPhase(host, began ? phases.create : phases.begin, async (): Promise<DriverOutcome> => {
    const azure = await host.azureAt(place.subscription_id);
    const context = { host, target, spec, azure, place };
    const cluster = await azure.clusters.get(place);
    if (cluster && !belongsToInstance(cluster, target))
      return nameTakenFailure(`a cluster ${place.cluster}`, phases.create);
    if (cluster) return adoptCluster(context, cluster);
    if (target.state.cluster_seen === true) return clusterGoneFailure(context);
    if (!began)
      return {
        outcome: 'wait',
        retry_seconds: 0,
        message: `cluster ${place.cluster} will be created in ${spec.location}`,
        phase: phases.begin,
        state: { ...target.state, ...placeState(place), began_at_ms: host.clock.nowMs() },
      };
    const group = await runInPhase(host, phases.group, () => ensureGroup(context));
    return group ?? requestCluster(context);
  });
}

const phase = phases.create;

const stateWithPlace = ({ target, place }: EnsureContext): DriverState => ({ ...target.state, ...placeState(place) });

/** A deleted cluster is not recreated. The pool's `attempts` decide whether to launch another. */
const clusterGoneFailure = ({ place }: EnsureContext): DriverFailure =>
  creationFailure('cluster_gone', `cluster ${place.cluster} existed and does not exist any more: somebody deleted it`);

/** Requests the cluster, unless an earlier request for it is still running. */
async function requestCluster(context: EnsureContext): Promise<DriverOutcome> {
  const { host, target, azure, place, spec } = context;
  const followed = await followOperation(host, azure, target.state);
  if (followed?.state === 'failed' && followed.error)
    return providerFailure(followed.error, `Azure did not create cluster ${place.cluster}`, host.redact, phase);
  if (followed && followed.state !== 'canceled')
    return waitAndPoll(host, `Azure accepted the request for cluster ${place.cluster}, which is not visible yet`, {
      phase,
      state: { ...stateWithPlace(context), ...followed.driver_state },
    });
  const now_ms = host.clock.nowMs();
  if (!isRequestRecorded(target.state, now_ms))
    return {
      outcome: 'wait',
      retry_seconds: 0,
      message: `requesting cluster ${place.cluster}`,
      phase,
      state: { ...stateWithPlace(context), asked_at_ms: now_ms },
    };
  try {
    const operation = await azure.clusters.create(place, buildClusterRequest(target, spec, place));
    return {
      outcome: 'wait',
      retry_seconds: Math.min(1, host.poll_seconds),
      message: `Azure accepted the request for cluster ${place.cluster}, which is not visible yet`,
      phase,
      state: { ...stateWithPlace(context), operation, operation_next_at_ms: now_ms, arm_began_at_ms: now_ms },
    };
  } catch (error) {
    if (statusOf(error) === 412 && codeOf(error) !== null)
      return waitAndPoll(host, `cluster ${place.cluster} is already being created`, { phase });
    // AKS may not see a new group yet, although the resource manager shows it.
    if (isMissing(error))
      return waitAndPoll(host, `resource group ${place.resource_group} is not visible to AKS yet`, { phase });
    throw error;
  }
}

const creationFailure = (code: string, message: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code,
  message,
  retryable: false,
  phase,
});

const beganAtMs = ({ host, target }: EnsureContext, cluster: Cluster): number => {
  const { arm_began_at_ms } = target.state;
  if (typeof arm_began_at_ms === 'number') return arm_began_at_ms;
  return cluster.created_at?.getTime() ?? host.clock.nowMs();
};

/** Continues with a cluster that exists, for example one that a crashed replica requested. */
async function adoptCluster(context: EnsureContext, cluster: Cluster): Promise<DriverOutcome> {
  if (isReady(cluster)) return assignRoles(context, cluster);
  if (isBusy(cluster)) return reportProgress(context, cluster);
  return reportEnd(context, cluster);
}

async function reportProgress(context: EnsureContext, cluster: Cluster): Promise<DriverOutcome> {
  const { host, target, azure, place } = context;
  const began_at_ms = beganAtMs(context, cluster);
  const [followed, latest] = await Promise.all([
    followOperation(host, azure, target.state),
    // Only the percentage depends on this call, so its errors are ignored.
    azure.clusters.readLatestOperation(place).catch(() => null),
  ]);
  const percent = latest?.percent ?? null;
  return waitAndPoll(host, progressMessage(cluster, (host.clock.nowMs() - began_at_ms) / 1000, percent), {
    phase,
    mark: markOf(cluster, percent),
    parts: redactedParts(host, cluster),
    state: { ...stateWithPlace(context), ...followed?.driver_state, cluster_seen: true, arm_began_at_ms: began_at_ms },
  });
}

const redactedParts = (host: AksHost, cluster: Cluster) =>
  progressParts(cluster).map(({ detail, ...part }) => ({ ...part, ...(detail && { detail: host.redact(detail) }) }));

/** Handles a cluster that is not ready although no operation is running on it. */
async function reportEnd(context: EnsureContext, cluster: Cluster): Promise<DriverOutcome> {
  const { host, azure, target, place } = context;
  const failedPool = cluster.pools.find(({ state }) => state === 'Failed');
  if (cluster.provisioning === 'Succeeded' && !failedPool)
    return waitAndPoll(host, `AKS state: Succeeded, power ${cluster.power} · ${describePools(cluster)}`, {
      phase,
      mark: markOf(cluster, null),
      parts: redactedParts(host, cluster),
      state: { ...stateWithPlace(context), cluster_seen: true },
    });
  if (cluster.provisioning === 'Canceled')
    return creationFailure('Canceled', `AKS state: Canceled: the creation of cluster ${place.cluster} was aborted`);
  const followed: PolledOperation | null = await followOperation(host, azure, target.state, { ignore_interval: true });
  const error = cluster.error ?? followed?.error ?? failedPool?.error;
  const about = failedPool
    ? `AKS state: ${cluster.provisioning}, agent pool ${failedPool.name} is Failed`
    : `AKS state: ${cluster.provisioning}`;
  if (error) return providerFailure(error, about, host.redact, phase);
  return creationFailure(failedPool ? 'AgentPoolFailed' : 'ClusterFailed', `${about}; Azure gives no reason`);
}

const describeRoles = ({ spec: { roles = [] } }: EnsureContext) =>
  roles.length === 0 ? 'the pool has no role assignments' : `next are its role assignments (${roles.length})`;

/** Finishes a ready cluster. The first call only reports the phase, so users see it as a step. */
function assignRoles(context: EnsureContext, cluster: Cluster): Promise<DriverOutcome> {
  const { host, place, target } = context;
  const { operation: _operation, operation_next_at_ms: _next, ...state } = target.state;
  const parts = redactedParts(host, cluster);
  const newState = { ...state, ...placeState(place), cluster_seen: true, roles_begun: true };
  return runInPhase(host, phases.roles, async (): Promise<DriverOutcome> => {
    if (target.state.roles_begun !== true) {
      const message = `cluster ${place.cluster} was created and runs; ${describeRoles(context)}`;
      return { outcome: 'wait', retry_seconds: 0, message, phase: phases.roles, parts, state: newState };
    }
    const unfinished = await ensureRoles(context);
    if (unfinished) return unfinished.outcome === 'failed' ? unfinished : { ...unfinished, parts, state: newState };
    const nodes = cluster.pools.reduce((sum, { count }) => sum + count, 0);
    return {
      outcome: 'done',
      message: `cluster ${place.cluster} runs Kubernetes ${cluster.version} on ${nodes} machines in ${cluster.pools.length} pools`,
      phase: phases.done,
      parts,
      state: newState,
    };
  });
}
