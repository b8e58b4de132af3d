/**
 * How the cost of a machine grows with the number of concurrent ones; the time of one alone is the
 * baseline.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { type Round, upAndDown } from './machines.ts';

const options = readOptions(import.meta.url, {
  takes: 'some minutes',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const counts = [1, 10, 50];

const loadBefore = loadavg();
const directory = await freshDirectory();
const server = await startWithNpm(join(directory, 'data'));
const client = await server.client();
await upAndDown(client, 1);
const figures: Figure[] = [];
let alone: Round | undefined;
for (const count of counts) {
  const samples: Round[] = [];
  for (let round = 0; round < rounds; round++) samples.push(await upAndDown(client, count));
  const middle = {
    active: median(samples.map((sample) => sample.active)),
    released: median(samples.map((sample) => sample.released)),
  };
  alone ??= middle;
  for (const phase of ['active', 'released'] as const) {
    figures.push({
      what: `${count} at once, all ${phase}`,
      value: middle[phase],
      unit: 's',
      samples: samples.map((sample) => sample[phase]),
    });
    if (count > 1)
      figures.push({
        what: '… per machine, against one alone',
        value: middle[phase] / count / alone[phase],
        unit: '×',
      });
  }
}
figures.push({ what: 'memory of the server afterwards', value: server.residentMb(), unit: 'MB' });
await server.stop();
await removeDirectory(directory);
report(options, 'at-once', figures, loadBefore);
