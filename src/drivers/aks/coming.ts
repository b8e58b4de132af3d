/** Whether a requested cluster may still appear; it can be deleted only then. */
import type { DriverTarget } from '../driver.ts';
import type { AksHost, Placed } from './aks-host.ts';
import { follow } from './ensure/follow.ts';
import { mayStillAppear } from './ensure/note.ts';

export async function isComing(host: AksHost, { azure, place }: Placed, { state }: DriverTarget): Promise<boolean> {
  if (state.cluster_seen === true) return false;
  if (typeof state.operation === 'string') return (await follow(host, azure, state))?.state === 'running';
  // A group of its own is deleted with whatever appears in it.
  return !place.own_group && mayStillAppear(state, host.clock.nowMs());
}
