/** Takes away the resource group that was made for an instance, and never with anything in it that is not of this instance. */
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import { type AksHost, isOurs, looksAgain, ofAnother, type Placed } from './aks-host.ts';
import { ask_again_ms } from './ensure/ensure-group.ts';
import { clusterId } from './place.ts';

const most_named = 5;

const foreignThings = (group: string, ids: string[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'foreign_resources',
  message: `resource group ${group} was made for this instance and holds what is not of it, so it was left alone: ${ids.slice(0, most_named).join(', ')}${ids.length > most_named ? ` and ${ids.length - most_named} more` : ''}; move that away, or delete it`,
  retryable: true,
});

/** A group that Azure was asked for, and that nobody has seen yet: it comes, and would be left behind. */
const isComing = ({ clock }: AksHost, { state }: DriverTarget): boolean =>
  typeof state.group_asked_at_ms === 'number' &&
  state.arm_began_at_ms === undefined &&
  state.cluster_seen !== true &&
  clock.nowMs() - state.group_asked_at_ms < ask_again_ms;

/** Null when there is none. */
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
      ? looksAgain(
          host,
          `Azure was asked for resource group ${resource_group} and does not show it yet, so it cannot be deleted`,
        )
      : null;
  if (!isOurs(group, target)) return ofAnother(`a resource group ${resource_group}`);
  if (group.state === 'Deleting') return looksAgain(host, `resource group ${resource_group} is being deleted`);
  const own = clusterId(place).toLowerCase();
  // The list lags behind: our cluster may stand in it after its end.
  const foreign = (await azure.groups.contents(resource_group)).filter(
    (each) => each.id.toLowerCase() !== own && !isOurs(each, target),
  );
  if (foreign.length > 0)
    return foreignThings(
      resource_group,
      foreign.map(({ id }) => id),
    );
  await azure.groups.remove(resource_group);
  return looksAgain(host, `resource group ${resource_group} is to be deleted`, {
    // It was seen, so nothing is coming any more.
    state: { ...target.state, group_asked_at_ms: null },
  });
}
