/**
 * From `npm start` (already installed) to `/readyz`, with an empty directory and again, and the
 * server's idle memory.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { type ServerProcess, startWithNpm } from '../harness/server-process.ts';

const options = readOptions(import.meta.url, {
  takes: 'about two minutes',
  options: { rounds: common.rounds, json: common.json },
});
const { rounds } = options;
const idleMs = 10_000;
const loadBefore = loadavg();
const cold: number[] = [];
const warm: number[] = [];
const idle: number[] = [];

const timed = async (data_dir: string, samples: number[]): Promise<ServerProcess> => {
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
  await (await timed(data_dir, cold)).stop();
  const server = await timed(data_dir, warm);
  await pause(systemClock, idleMs);
  idle.push(server.residentMb());
  await server.stop();
  await removeDirectory(directory);
}

const figures: Figure[] = [
  { what: 'start with nothing there', value: median(cold), unit: 's', target: 5, samples: cold },
  { what: 'start again', value: median(warm), unit: 's', target: 3, samples: warm },
  { what: 'again, against the first', value: median(warm) / median(cold), unit: '×' },
  { what: `memory after ${idleMs / 1000} s idle`, value: median(idle), unit: 'MB', target: 200, samples: idle },
];
report(options, 'startup', figures, loadBefore);
