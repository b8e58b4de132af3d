/**
 * Measures how long it takes to allocate and release 1, 10 and 50 local machines at once. The
 * baseline for the time per machine is one machine alone.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { allocateAndRelease, type RoundTimes } from './machines.ts';

const options = readOptions(import.meta.url, {
  duration: 'several minutes',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const counts = [1, 10, 50];

const loadBefore = loadavg();
const directory = await freshDirectory();
const server = await startWithNpm(join(directory, 'data'));
const client = await server.client();
await allocateAndRelease(client, 1);
const figures: Figure[] = [];
let alone: RoundTimes | undefined;
for (const count of counts) {
  const samples: RoundTimes[] = [];
  for (let round = 0; round < rounds; round++) samples.push(await allocateAndRelease(client, count));
  const medians = {
    active: median(samples.map((sample) => sample.active)),
    released: median(samples.map((sample) => sample.released)),
  };
  alone ??= medians;
  for (const phase of ['active', 'released'] as const) {
    figures.push({
      what: `${count} machines at once, until all are ${phase}`,
      value: medians[phase],
      unit: 's',
      samples: samples.map((sample) => sample[phase]),
    });
    if (count > 1)
      figures.push({
        what: '… per machine / one machine alone (baseline)',
        value: medians[phase] / count / alone[phase],
        unit: '×',
      });
  }
}
figures.push({ what: 'memory of the server afterwards', value: server.residentMb(), unit: 'MB' });
await server.stop();
await removeDirectory(directory);
report(options, 'at-once', figures, loadBefore);
