/**
 * Deletes the resource group of an instance, but never with anything in it that is not of this
 * instance.
 */
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import { type AksHost, isOurs, ofAnother, type Placed, waitAndLook } from './aks-host.ts';
import { ask_again_ms } from './ensure/ensure-group.ts';
import { clusterId } from './place.ts';

const max_named = 5;

const foreignThings = (group: string, ids: string[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'foreign_resources',
  message: `resource group ${group} was made for this instance and holds what is not of it, so it was left alone: ${ids.slice(0, max_named).join(', ')}${ids.length > max_named ? ` and ${ids.length - max_named} more` : ''}; move that away, or delete it`,
  retryable: true,
});

/** A requested group that is not visible yet: it will appear, and would be left behind. */
const isComing = ({ clock }: AksHost, { state }: DriverTarget): boolean =>
  typeof state.group_asked_at_ms === 'number' &&
  state.arm_began_at_ms === undefined &&
  state.cluster_seen !== true &&
  clock.nowMs() - state.group_asked_at_ms < ask_again_ms;

/** Returns null if there is none. */
export async function destroyGroup(
  host: AksHost,
  target: DriverTarget,
  { azure, place }: Placed,
): Promise<DriverWait | DriverFailure | null> {
  if (!place.own_group) return null;
  const { resource_group } = place;
  const group = await azure.groups.get(resource_group);
  if (!group)
    return isComing(host, target)
      ? waitAndLook(
          host,
          `Azure was asked for resource group ${resource_group} and does not show it yet, so it cannot be deleted`,
        )
      : null;
  if (!isOurs(group, target)) return ofAnother(`a resource group ${resource_group}`);
  if (group.state === 'Deleting') return waitAndLook(host, `resource group ${resource_group} is being deleted`);
  const own = clusterId(place).toLowerCase();
  // The list lags behind: our cluster may still be in it.
  const foreign = (await azure.groups.contents(resource_group)).filter(
    (each) => each.id.toLowerCase() !== own && !isOurs(each, target),
  );
  if (foreign.length > 0)
    return foreignThings(
      resource_group,
      foreign.map(({ id }) => id),
    );
  await azure.groups.remove(resource_group);
  return waitAndLook(host, `resource group ${resource_group} is to be deleted`, {
    // It was seen, so it is not pending any more.
    state: { ...target.state, group_asked_at_ms: null },
  });
}
