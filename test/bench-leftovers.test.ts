/** A benchmark removes its processes and directories even if a signal or an error ends it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { isProcessAlive } from '../src/store/pg/embedded/postmaster.ts';

const leftovers = fileURLToPath(new URL('../bench/harness/leftovers.ts', import.meta.url));
/**
 * Registers two clean-ups and starts a detached process. Like a machine, the process can be found
 * only by the directory among its arguments.
 */
const program = `
  import { spawn } from 'node:child_process';
  import { freshDirectory, registerCleanup } from '${leftovers}';
  const directory = await freshDirectory();
  const machine = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)', directory], { detached: true, stdio: 'ignore' });
  const onEnd = (name) => registerCleanup(async () => console.log(name));
  const [first, second] = [onEnd('first'), onEnd('second')];
  console.log(JSON.stringify({ directory, pid: machine.pid }));
  process.stdin.once('data', async () => { await first(); throw new Error('the benchmark broke'); });
  process.on('exit', () => { try { onEnd('late'); } catch (error) { console.log(error.message); } });
`;

async function startBench() {
  const bench = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'pipe'] });
  const lines: string[] = [];
  const output = createInterface(bench.stdout).on('line', (line) => lines.push(line));
  await once(output, 'line');
  const { directory, pid } = JSON.parse(lines.shift() ?? '') as { directory: string; pid: number };
  const hasLeftovers = () => existsSync(directory) || isProcessAlive(pid);
  return { bench, lines, hasLeftovers, exited: once(bench, 'close') };
}

test.for([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s runs the clean-ups in reverse order, refuses new ones and exits with %i', async ([signal, code]) => {
  const { bench, lines, hasLeftovers, exited } = await startBench();
  expect(hasLeftovers()).toBe(true);
  bench.kill(signal);
  expect(await exited).toEqual([code, null]);
  expect(lines).toEqual(['second', 'first', 'the benchmark is shutting down']);
  expect(hasLeftovers()).toBe(false);
});

test('an uncaught error is printed, runs the remaining clean-ups and exits with 1', async () => {
  const { bench, lines, hasLeftovers, exited } = await startBench();
  const errorOutput = once(bench.stderr, 'data');
  bench.stdin.end('break');
  expect(String(await errorOutput)).toContain('the benchmark broke');
  expect(await exited).toEqual([1, null]);
  expect(lines).toEqual(['first', 'second', 'the benchmark is shutting down']);
  expect(hasLeftovers()).toBe(false);
});
