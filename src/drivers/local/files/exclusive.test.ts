import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { exclusively } from './exclusive.ts';

const name = (about: string) => `slipway-test.${process.pid}.${about}`;
const free = async () => 'free';

it('admits one at a time, and the next when the first has finished or failed', async () => {
  let leave = () => {};
  const held = exclusively(name('a'), () => new Promise<void>((resolve) => (leave = resolve)));
  expect(await exclusively(name('a'), free)).toBe(null);
  expect(await exclusively(name('b'), free)).toBe('free');
  leave();
  await held;
  const failing = exclusively(name('a'), async () => {
    throw new Error('no luck');
  });
  await expect(failing).rejects.toThrow('no luck');
  expect(await exclusively(name('a'), free)).toBe('free');
});

it('excludes other processes, and is freed when its holder is killed', async () => {
  const module = JSON.stringify(fileURLToPath(new URL('exclusive.ts', import.meta.url)));
  const holder = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { exclusively } from ${module};
       process.on('message', () => {}); // keeps it alive
       await exclusively(${JSON.stringify(name('c'))}, () => { process.send('held'); return new Promise(() => {}); });`,
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  );
  const gone = once(holder, 'exit');
  await once(holder, 'message');
  expect(await exclusively(name('c'), free)).toBe(null);
  holder.kill('SIGKILL');
  await gone;
  expect(await exclusively(name('c'), free)).toBe('free');
});
