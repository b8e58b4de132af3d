/**
 * Our overhead on `local`: allocate → active and release → released, compared with a bare agent
 * process.
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
import { upAndDown } from './machines.ts';

const options = readOptions(import.meta.url, {
  takes: 'about a minute',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const agent = fileURLToPath(new URL('../../dist/agent.mjs', import.meta.url));
/** The unavoidable part: the agent's own process, from start to exit. */
const bareAgent = () => secondsOf(() => once(spawn(process.execPath, [agent, '--help'], { stdio: 'ignore' }), 'exit'));

const loadBefore = loadavg();
const directory = await freshDirectory();
const server = await startWithNpm(join(directory, 'data'));
const client = await server.client();
const bare: number[] = [];
const active: number[] = [];
const released: number[] = [];
// The first of each warms caches and connections and is not counted.
for (let round = 0; round <= rounds; round++) {
  const baseline = await bareAgent();
  const once = await upAndDown(client, 1);
  if (round === 0) continue;
  bare.push(baseline);
  active.push(once.active);
  released.push(once.released);
}
await server.stop();
await removeDirectory(directory);

const figures: Figure[] = [
  { what: 'bare agent process', value: median(bare), unit: 's', samples: bare },
  { what: 'allocate → active', value: median(active), unit: 's', target: 3, samples: active },
  { what: '… against the bare agent', value: median(active) / median(bare), unit: '×' },
  { what: 'release → released with proof', value: median(released), unit: 's', target: 3, samples: released },
  { what: '… against the bare agent', value: median(released) / median(bare), unit: '×' },
];
report(options, 'overhead', figures, loadBefore);
