import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pause, systemClock } from '../../base/clock.ts';
import { handle } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { type LocalWorld, localWorld, standInAgent, until } from './testing/local-world.ts';

let world: LocalWorld;
beforeEach(async () => {
  world = await localWorld();
});
afterEach(() => world.close());

const path = (name: string) => JSON.stringify(fileURLToPath(new URL(name, import.meta.url)));

/**
 * A minimal server: makes the call for each target it receives, in a process that can be killed.
 */
const server = `
  import { createLocalDriver } from ${path('local-driver.ts')};
  import { systemClock } from ${path('../../base/clock.ts')};
  const driver = createLocalDriver({ ...JSON.parse(process.env.OPTIONS), clock: systemClock });
  process.on('message', async ({ call, target }) => {
    process.send('began');
    await driver[call](target);
    process.send('ended');
  });
  process.send('listening');
`;

async function startServer(agent_command = standInAgent): Promise<ChildProcess> {
  const options = { nodes_dir: world.nodes_dir, agent_command, host_id: 'host-a' };
  const child = spawn(process.execPath, ['--input-type=module', '-e', server], {
    env: { ...process.env, OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  return child;
}

async function killedDuring(
  call: 'ensure' | 'destroy',
  target: EnsureTarget,
  after_ms: number | 'its end',
): Promise<void> {
  const child = await startServer();
  const gone = once(child, 'exit');
  child.send({ call, target });
  await once(child, 'message');
  if (after_ms === 'its end') await once(child, 'message');
  else await pause(systemClock, after_ms);
  child.kill('SIGKILL');
  await gone;
}

/** From before the first file to after the last: an ensure takes some ten milliseconds. */
const moments_ms = [0, 1, 2, 3, 5, 8, 12, 20, 40, 'its end'] as const;

it('a server killed at any moment of ensure leaves one machine to its successor, which keeps running', async () => {
  let survived = 0;
  for (const after_ms of moments_ms) {
    const target = world.withSpec({});
    await killedDuring('ensure', target, after_ms);
    const survivors = await world.machines(target);
    survived += survivors;
    await handle(world, target).done('ensure');
    expect(await world.machines(target), `killed after ${after_ms}`).toBe(1);
  }
  expect(survived, 'an agent outlives its server').toBeGreaterThan(0);
});

describe('an agent that crashed while its launcher was paused', () => {
  const crashing = ['/bin/sh', '-c', 'while [ ! -e crash ]; do sleep 0.02; done; rm crash; exit 9', 'agent'];
  let launcher: ChildProcess;
  afterEach(() => launcher.kill('SIGKILL'));

  async function crashed(): Promise<EnsureTarget> {
    const target = world.withSpec({});
    launcher = await startServer(crashing);
    launcher.send({ call: 'ensure', target });
    await once(launcher, 'message');
    await once(launcher, 'message');
    launcher.kill('SIGSTOP');
    await writeFile(world.file(target, 'crash'), '');
    await until(async () => (await world.pids(target)).length === 0, 'the agent crashed');
    return target;
  }

  it('is not launched again before the launcher has recorded its end, nor afterwards', async () => {
    const target = await crashed();
    const machine = handle(world, target);
    expect(await world.open().ensure(target)).toMatchObject({ outcome: 'wait' });
    expect(await world.machines(target)).toBe(0);
    launcher.kill('SIGCONT');
    expect(await machine.ended('ensure')).toMatchObject({ outcome: 'failed', code: 'agent_exited' });
  });

  it('is launched again if the launcher is gone, since its end is unknown', async () => {
    const target = await crashed();
    launcher.kill('SIGKILL');
    await handle(world, target).done('ensure');
    expect(await world.machines(target)).toBe(1);
  });
});

it('a server killed at any moment of destroy leaves nothing that its successor cannot remove', async () => {
  for (const after_ms of moments_ms) {
    const target = world.withSpec({ setup: 'mkdir -p deep && cd deep && seq 1 300 | xargs touch' });
    await handle(world, target).done('ensure');
    await killedDuring('destroy', target, after_ms);
    // Between the removal of the marker and of the directory there is a moment without an owner.
    if (existsSync(world.directory(target)) && readdirSync(world.directory(target)).length > 0) {
      expect(await world.open().list_owned(world.installation_id), `killed after ${after_ms}`).toHaveLength(1);
    }
    await handle(world, target).done('destroy');
    expect(await world.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  }
});

it('fifty machines at once come up and go down, and nothing is left', async () => {
  const driver = world.open();
  const shared = { ...world, open: () => driver };
  const fleet = Array.from({ length: 50 }, () => handle(shared, world.withSpec({})));
  await Promise.all(fleet.map((machine) => machine.done('ensure')));
  expect(await driver.list_owned(world.installation_id)).toHaveLength(50);
  const down = async (machine: (typeof fleet)[number]) => {
    await machine.done('stop');
    await machine.done('clean');
    await machine.done('destroy');
    expect(await driver.prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  };
  await Promise.all(fleet.map(down));
  expect(await driver.list_owned(world.installation_id)).toEqual([]);
});
