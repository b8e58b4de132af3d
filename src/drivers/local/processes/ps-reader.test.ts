import { afterEach, expect, it } from 'vitest';
import { handle } from '../../conformance.ts';
import { createLocalDriver } from '../local-driver.ts';
import { type LocalWorld, localWorld } from '../testing/local-world.ts';
import { psReader } from './instance-processes.ts';

let world: LocalWorld;
afterEach(() => world.close());

it('finds a recorded machine without /proc, ends it with its command, and nothing else', async () => {
  const plain = await localWorld();
  const options = plain.options;
  world = { ...plain, open: () => createLocalDriver({ ...options, processes: psReader(plain.nodes_dir) }) };
  const machine = handle(world, world.withSpec({ command: ['/bin/sleep', '1000'] }));
  const neighbour = handle(world, world.withSpec({}));
  await machine.done('ensure');
  await neighbour.done('ensure');
  await world.ready(machine.target);
  await handle(world, { ...machine.target, state: {} }).done('ensure');
  expect(await world.machines(machine.target)).toBe(1);
  expect(await world.open().observe(machine.target)).toMatchObject({ state: 'running' });
  expect(await world.open().prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({
    code: 'not_absent',
  });
  await machine.done('destroy');
  expect(await world.pids(machine.target)).toEqual([]);
  expect(await world.open().prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  expect(await world.machines(neighbour.target)).toBe(1);
});
