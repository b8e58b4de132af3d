/** When memory is collected. */
import { setFlagsFromString } from 'node:v8';

/**
 * What a large fleet is remembered by stays, and to look through all of it takes two seconds of a processor. A process that seems to rest is collected by
 * itself every two minutes, to give memory back, and whenever a tenth has come to what it holds. One that remembers a large fleet never rests and has nothing
 * to give back: it is collected when more than half has come to it.
 */
export function collectOnlyForRoom(): void {
  // To switch the giving back off altogether is possible only before the process starts.
  setFlagsFromString('--memory-reducer-gc-count=0');
  setFlagsFromString('--heap-growing-percent=60');
}
