/**
 * Loaded into a server: at SIGUSR2 it fills most of the heap, as a leak or a huge answer would, and
 * at the next SIGUSR2 it frees that memory.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
const oldBytes = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space').space_used_size;
const wanted = Number(process.env.HELD_BYTES);

let held = [];
process.on('SIGUSR2', () => {
  if (held.length > 0) {
    held = [];
    return;
  }
  while (oldBytes() < wanted) {
    while (oldBytes() < wanted) held.push(Array.from({ length: 10_000 }, (_, at) => ({ at })));
    collect();
  }
});
