import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { withLock } from './exclusive.ts';

const lockName = (suffix: string) => `slipway-test.${process.pid}.${suffix}`;
const free = async () => 'free';

it('runs one holder at a time, and the next after the first has finished or failed', async () => {
  let release = () => {};
  const held = withLock(lockName('a'), () => new Promise<void>((resolve) => (release = resolve)));
  expect(await withLock(lockName('a'), free)).toBe(null);
  expect(await withLock(lockName('b'), free)).toBe('free');
  release();
  await held;
  const failing = withLock(lockName('a'), async () => {
    throw new Error('the work failed');
  });
  await expect(failing).rejects.toThrow('the work failed');
  expect(await withLock(lockName('a'), free)).toBe('free');
});

it('excludes other processes, and frees the lock when its holder is killed', async () => {
  const module = JSON.stringify(fileURLToPath(new URL('exclusive.ts', import.meta.url)));
  const holder = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { withLock } from ${module};
       process.on('message', () => {}); // keeps it alive
       await withLock(${JSON.stringify(lockName('c'))}, () => { process.send('held'); return new Promise(() => {}); });`,
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  );
  const exited = once(holder, 'exit');
  await once(holder, 'message');
  expect(await withLock(lockName('c'), free)).toBe(null);
  holder.kill('SIGKILL');
  await exited;
  expect(await withLock(lockName('c'), free)).toBe('free');
});
