/**
 * Measures the time from `npm start` until `/readyz` answers, first with an empty data directory
 * and then with the same directory again. Packages are already installed. Also measures the memory
 * of the idle server.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { type ServerProcess, startWithNpm } from '../harness/server-process.ts';

const options = readOptions(import.meta.url, {
  duration: 'about two minutes',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const idleMs = 10_000;
const loadBefore = loadavg();
const cold: number[] = [];
const warm: number[] = [];
const idle: number[] = [];

const startTimed = async (data_dir: string, samples: number[]): Promise<ServerProcess> => {
  let server: ServerProcess | undefined;
  samples.push(
    await secondsOf(async () => {
      server = await startWithNpm(data_dir);
    }),
  );
  if (!server) throw new Error('the server did not start');
  return server;
};

for (let round = 0; round < rounds; round++) {
  const directory = await freshDirectory();
  const data_dir = join(directory, 'data');
  await (await startTimed(data_dir, cold)).stop();
  const server = await startTimed(data_dir, warm);
  await pause(systemClock, idleMs);
  idle.push(server.residentMb());
  await server.stop();
  await removeDirectory(directory);
}

const figures: Figure[] = [
  { what: 'first start, empty data directory', value: median(cold), unit: 's', target: 5, samples: cold },
  { what: 'second start, same directory', value: median(warm), unit: 's', target: 3, samples: warm },
  { what: 'second start / first start', value: median(warm) / median(cold), unit: '×' },
  { what: `memory after ${idleMs / 1000} s idle`, value: median(idle), unit: 'MB', target: 200, samples: idle },
];
report(options, 'startup', figures, loadBefore);
