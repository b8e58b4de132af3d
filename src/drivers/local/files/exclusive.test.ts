import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { exclusively } from './exclusive.ts';

const lockName = (suffix: string) => `slipway-test.${process.pid}.${suffix}`;
const free = async () => 'free';

it('runs one holder at a time, and the next after the first has finished or failed', async () => {
  let release = () => {};
  const held = exclusively(lockName('a'), () => new Promise<void>((resolve) => (release = resolve)));
  expect(await exclusively(lockName('a'), free)).toBe(null);
  expect(await exclusively(lockName('b'), free)).toBe('free');
  release();
  await held;
  const failing = exclusively(lockName('a'), async () => {
    throw new Error('no luck');
  });
  await expect(failing).rejects.toThrow('no luck');
  expect(await exclusively(lockName('a'), free)).toBe('free');
});

it('excludes other processes, and frees the lock when its holder is killed', async () => {
  const module = JSON.stringify(fileURLToPath(new URL('exclusive.ts', import.meta.url)));
  const holder = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { exclusively } from ${module};
       process.on('message', () => {}); // keeps it alive
       await exclusively(${JSON.stringify(lockName('c'))}, () => { process.send('held'); return new Promise(() => {}); });`,
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  );
  const gone = once(holder, 'exit');
  await once(holder, 'message');
  expect(await exclusively(lockName('c'), free)).toBe(null);
  holder.kill('SIGKILL');
  await gone;
  expect(await exclusively(lockName('c'), free)).toBe('free');
});
