/** Creates the resource group of a cluster, or checks that the group named by the pool exists. */
import type { DriverFailure, DriverWait } from '../../driver.ts';
import { belongsToInstance, nameTakenFailure, waitAndPoll } from '../aks-host.ts';
import { buildTags, type EnsureContext, phases } from './plan.ts';

const phase = phases.group;

/** A requested group that stays invisible for this time is requested again. */
export const group_retry_ms = 60_000;

/** Returns null if the group exists. */
export async function ensureGroup({
  host,
  target,
  spec,
  azure,
  place,
}: EnsureContext): Promise<DriverWait | DriverFailure | null> {
  const { resource_group } = place;
  const group = await azure.groups.get(resource_group);
  if (!place.own_group) {
    if (group) return null;
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'ResourceGroupNotFound',
      message: `the pool names resource group ${resource_group}, which does not exist in subscription ${place.subscription_id}; create it, or remove it from the pool`,
      retryable: true,
      phase,
    };
  }
  if (group && !belongsToInstance(group, target)) return nameTakenFailure(`a resource group ${resource_group}`, phase);
  if (group?.state === 'Deleting')
    return waitAndPoll(host, `resource group ${resource_group} is being deleted`, { phase });
  if (group) return null;
  const { group_asked_at_ms } = target.state;
  const now_ms = host.clock.nowMs();
  if (typeof group_asked_at_ms === 'number' && now_ms - group_asked_at_ms < group_retry_ms)
    return waitAndPoll(host, `resource group ${resource_group} was created but is not visible yet`, {
      phase,
      retry_seconds: Math.min(1, host.poll_seconds),
    });
  await azure.groups.create(resource_group, { location: spec.location, tags: buildTags(target, spec) });
  return {
    outcome: 'wait',
    retry_seconds: 0,
    message: `creating resource group ${resource_group} in ${spec.location}`,
    phase,
    state: { ...target.state, group_asked_at_ms: now_ms },
  };
}
