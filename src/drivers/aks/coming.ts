/** A cluster that Azure was asked for and that nobody sees yet: it comes, and only then can it be ended. */
import type { DriverTarget } from '../driver.ts';
import type { AksHost, Placed } from './aks-host.ts';
import { follow } from './ensure/follow.ts';
import { mayStillShow } from './ensure/note.ts';

export async function isComing(host: AksHost, { azure, place }: Placed, { state }: DriverTarget): Promise<boolean> {
  if (state.cluster_seen === true) return false;
  if (typeof state.operation === 'string') return (await follow(host, azure, state))?.state === 'running';
  // A group of its own goes with whatever comes into it.
  return !place.own_group && mayStillShow(state, host.clock.nowMs());
}
