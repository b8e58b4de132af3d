import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pause, systemClock } from '../../base/clock.ts';
import { handle } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { type LocalFixture, localFixture, standInAgent, until } from './testing/local-fixture.ts';

let fixture: LocalFixture;
beforeEach(async () => {
  fixture = await localFixture();
});
afterEach(() => fixture.close());

const path = (name: string) => JSON.stringify(fileURLToPath(new URL(name, import.meta.url)));

/** A minimal server process that can be killed. It makes the driver call for each message. */
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
  const options = { nodes_dir: fixture.nodes_dir, agent_command, host_id: 'host-a' };
  const child = spawn(process.execPath, ['--input-type=module', '-e', server], {
    env: { ...process.env, OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  return child;
}

async function killServerDuring(
  call: 'ensure' | 'destroy',
  target: EnsureTarget,
  after_ms: number | 'the call has ended',
): Promise<void> {
  const child = await startServer();
  const exited = once(child, 'exit');
  child.send({ call, target });
  await once(child, 'message');
  if (after_ms === 'the call has ended') await once(child, 'message');
  else await pause(systemClock, after_ms);
  child.kill('SIGKILL');
  await exited;
}

/** An ensure takes about ten milliseconds, so these cover the time before, during and after it. */
const moments_ms = [0, 1, 2, 3, 5, 8, 12, 20, 40, 'the call has ended'] as const;

it('after a server is killed at any moment of ensure, the next server has exactly one machine', async () => {
  let survivingAgents = 0;
  for (const after_ms of moments_ms) {
    const target = fixture.withSpec({});
    await killServerDuring('ensure', target, after_ms);
    const survivors = await fixture.machines(target);
    survivingAgents += survivors;
    await handle(fixture, target).done('ensure');
    expect(await fixture.machines(target), `killed after ${after_ms}`).toBe(1);
  }
  expect(survivingAgents, 'an agent outlives its server').toBeGreaterThan(0);
});

describe('an agent that crashed while its launcher was paused', () => {
  const crashingAgent = ['/bin/sh', '-c', 'while [ ! -e crash ]; do sleep 0.02; done; rm crash; exit 9', 'agent'];
  let launcher: ChildProcess;
  afterEach(() => launcher.kill('SIGKILL'));

  async function crashAgent(): Promise<EnsureTarget> {
    const target = fixture.withSpec({});
    launcher = await startServer(crashingAgent);
    launcher.send({ call: 'ensure', target });
    await once(launcher, 'message');
    await once(launcher, 'message');
    launcher.kill('SIGSTOP');
    await writeFile(fixture.file(target, 'crash'), '');
    await until(async () => (await fixture.pids(target)).length === 0, 'the agent crashed');
    return target;
  }

  it('is not launched again, neither before nor after the launcher records its exit code', async () => {
    const target = await crashAgent();
    const machine = handle(fixture, target);
    expect(await fixture.open().ensure(target)).toMatchObject({ outcome: 'wait' });
    expect(await fixture.machines(target)).toBe(0);
    launcher.kill('SIGCONT');
    expect(await machine.ended('ensure')).toMatchObject({ outcome: 'failed', code: 'agent_exited' });
  });

  it('is launched again if the launcher has ended, because its exit code is unknown', async () => {
    const target = await crashAgent();
    launcher.kill('SIGKILL');
    await handle(fixture, target).done('ensure');
    expect(await fixture.machines(target)).toBe(1);
  });
});

it('after a server is killed at any moment of destroy, the next server removes everything', async () => {
  for (const after_ms of moments_ms) {
    const target = fixture.withSpec({ setup: 'mkdir -p deep && cd deep && seq 1 300 | xargs touch' });
    await handle(fixture, target).done('ensure');
    await killServerDuring('destroy', target, after_ms);
    // After the marker is removed and before the directory is, nothing shows the owner.
    if (existsSync(fixture.directory(target)) && readdirSync(fixture.directory(target)).length > 0) {
      expect(await fixture.open().list_owned(fixture.installation_id), `killed after ${after_ms}`).toHaveLength(1);
    }
    await handle(fixture, target).done('destroy');
    expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  }
});

it('starts and destroys fifty machines concurrently without leftovers', async () => {
  const driver = fixture.open();
  const shared = { ...fixture, open: () => driver };
  const fleet = Array.from({ length: 50 }, () => handle(shared, fixture.withSpec({})));
  await Promise.all(fleet.map((machine) => machine.done('ensure')));
  expect(await driver.list_owned(fixture.installation_id)).toHaveLength(50);
  const tearDown = async (machine: (typeof fleet)[number]) => {
    await machine.done('stop');
    await machine.done('clean');
    await machine.done('destroy');
    expect(await driver.prove(machine.target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
  };
  await Promise.all(fleet.map(tearDown));
  expect(await driver.list_owned(fixture.installation_id)).toEqual([]);
});
