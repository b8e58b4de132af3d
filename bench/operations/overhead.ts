/**
 * Measures how long it takes to allocate and to release one machine of the `local` pool. The
 * baseline is the start and exit of a bare agent process.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { allocateAndRelease } from './machines.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const agent = fileURLToPath(new URL('../../dist/agent.mjs', import.meta.url));
/** The baseline: the time that the agent's process takes from start to exit. */
const measureBareAgent = () =>
  secondsOf(() => once(spawn(process.execPath, [agent, '--help'], { stdio: 'ignore' }), 'exit'));

const loadBefore = loadavg();
const directory = await freshDirectory();
const server = await startWithNpm(join(directory, 'data'));
const client = await server.client();
const bare: number[] = [];
const active: number[] = [];
const released: number[] = [];
// The first round warms caches and connections and is not counted.
for (let round = 0; round <= rounds; round++) {
  const baseline = await measureBareAgent();
  const times = await allocateAndRelease(client, 1);
  if (round === 0) continue;
  bare.push(baseline);
  active.push(times.active);
  released.push(times.released);
}
await server.stop();
await removeDirectory(directory);

const figures: Figure[] = [
  { what: 'bare agent process (baseline)', value: median(bare), unit: 's', samples: bare },
  { what: 'from the allocation request to active', value: median(active), unit: 's', target: 3, samples: active },
  { what: '… / bare agent process', value: median(active) / median(bare), unit: '×' },
  {
    what: 'from the release request to released with proof',
    value: median(released),
    unit: 's',
    target: 3,
    samples: released,
  },
  { what: '… / bare agent process', value: median(released) / median(bare), unit: '×' },
];
report(options, 'overhead', figures, loadBefore);
