/** The resource group of the cluster: its own, or an existing one that the pool names. */
import type { DriverFailure, DriverWait } from '../../driver.ts';
import { belongsToInstance, ofAnother, waitAndLook } from '../aks-host.ts';
import { type Making, phases, wantedTags } from './plan.ts';

const phase = phases.group;

/** After this long the group is requested again. */
export const ask_again_ms = 60_000;

/** Returns null if it exists. */
export async function ensureGroup({
  host,
  target,
  spec,
  azure,
  place,
}: Making): Promise<DriverWait | DriverFailure | null> {
  const { resource_group } = place;
  const group = await azure.groups.get(resource_group);
  if (!place.own_group) {
    if (group) return null;
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'ResourceGroupNotFound',
      message: `the pool names resource group ${resource_group}, and subscription ${place.subscription_id} has none of that name; make it, or leave it out of the pool`,
      retryable: true,
      phase,
    };
  }
  if (group && !belongsToInstance(group, target)) return ofAnother(`a resource group ${resource_group}`, phase);
  if (group?.state === 'Deleting')
    return waitAndLook(host, `resource group ${resource_group} is being deleted`, { phase });
  if (group) return null;
  const { group_asked_at_ms } = target.state;
  const now_ms = host.clock.nowMs();
  if (typeof group_asked_at_ms === 'number' && now_ms - group_asked_at_ms < ask_again_ms)
    return waitAndLook(host, `resource group ${resource_group} was made and is not visible yet`, {
      phase,
      retry_seconds: Math.min(1, host.look_seconds),
    });
  await azure.groups.create(resource_group, { location: spec.location, tags: wantedTags(target, spec) });
  return {
    outcome: 'wait',
    retry_seconds: 0,
    message: `resource group ${resource_group} is made in ${spec.location}`,
    phase,
    state: { ...target.state, group_asked_at_ms: now_ms },
  };
}
