import { afterEach, expect, it } from 'vitest';
import { handle } from '../../conformance.ts';
import { createLocalDriver } from '../local-driver.ts';
import { type LocalFixture, localFixture } from '../testing/local-fixture.ts';
import { psReader } from './instance-processes.ts';

let fixture: LocalFixture;
afterEach(() => fixture.close());

it('without /proc, finds a recorded machine and ends only that machine with its command', async () => {
  const procfsFixture = await localFixture();
  const options = procfsFixture.options;
  fixture = {
    ...procfsFixture,
    open: () => createLocalDriver({ ...options, processes: psReader(procfsFixture.nodes_dir) }),
  };
  const machine = handle(fixture, fixture.withSpec({ command: ['/bin/sleep', '1000'] }));
  const neighbour = handle(fixture, fixture.withSpec({}));
  await machine.done('ensure');
  await neighbour.done('ensure');
  await fixture.ready(machine.target);
  await handle(fixture, { ...machine.target, state: {} }).done('ensure');
  expect(await fixture.machines(machine.target)).toBe(1);
  expect(await fixture.open().inspect(machine.target)).toMatchObject({ state: 'running' });
  expect(await fixture.open().prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({
    code: 'not_absent',
  });
  await machine.done('destroy');
  expect(await fixture.pids(machine.target)).toEqual([]);
  expect(await fixture.open().prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  expect(await fixture.machines(neighbour.target)).toBe(1);
});
