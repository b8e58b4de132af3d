/** Whatever ends a benchmark, nothing that it started or made is left. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { isProcessAlive } from '../src/store/pg/embedded/postmaster.ts';

const leftovers = fileURLToPath(new URL('../bench/harness/leftovers.ts', import.meta.url));
/** Two that are ended in turn, and a process that nobody ends: it names the directory, as a server's machines do. */
const program = `
  import { spawn } from 'node:child_process';
  import { freshDirectory, whenOver } from '${leftovers}';
  const directory = await freshDirectory();
  const machine = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)', directory], { detached: true, stdio: 'ignore' });
  const ends = (name) => whenOver(async () => console.log(name));
  const [first, second] = [ends('first'), ends('second')];
  console.log(JSON.stringify({ directory, pid: machine.pid }));
  process.stdin.once('data', async () => { await first(); throw new Error('it broke'); });
  process.on('exit', () => { try { ends('late'); } catch (error) { console.log(error.message); } });
`;

async function startBench() {
  const bench = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'pipe'] });
  const lines: string[] = [];
  const told = createInterface(bench.stdout).on('line', (line) => lines.push(line));
  await once(told, 'line');
  const { directory, pid } = JSON.parse(lines.shift() ?? '') as { directory: string; pid: number };
  const isLeft = () => existsSync(directory) || isProcessAlive(pid);
  return { bench, lines, isLeft, exited: once(bench, 'close') };
}

test.for([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s ends all in the opposite order, begins nothing new and exits with %i', async ([signal, code]) => {
  const { bench, lines, isLeft, exited } = await startBench();
  expect(isLeft()).toBe(true);
  bench.kill(signal);
  expect(await exited).toEqual([code, null]);
  expect(lines).toEqual(['second', 'first', 'the benchmark is being ended']);
  expect(isLeft()).toBe(false);
});

test('an error that nobody catches ends what has not been ended yet, and is told', async () => {
  const { bench, lines, isLeft, exited } = await startBench();
  const told = once(bench.stderr, 'data');
  bench.stdin.end('break');
  expect(String(await told)).toContain('it broke');
  expect(await exited).toEqual([1, null]);
  expect(lines).toEqual(['first', 'second', 'the benchmark is being ended']);
  expect(isLeft()).toBe(false);
});
