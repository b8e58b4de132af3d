/**
 * Tests that, if a container engine hangs or does not exist, every call returns early enough for a
 * cancel to take effect, and no call reports a container as absent.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { driverOptions, newTarget } from '../../../test/support/docker/docker-fixture.ts';
import { type SilentListener, silentListener } from '../../../test/support/silent-listener.ts';
import { systemClock } from '../../base/clock.ts';
import { createDockerDriver } from './docker-driver.ts';

/** A call gives up after a few seconds. The rest is for a busy machine. */
const maxCallMs = 20_000;

let directory: string;
let server: SilentListener | undefined;

async function hangingEngine(): Promise<string> {
  directory = mkdtempSync(join(tmpdir(), 'slipway-hung-'));
  const path = join(directory, 'engine.sock');
  server = await silentListener({ path });
  return `unix://${path}`;
}

const absentEngine = async () => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-absent-'));
  return `unix://${join(directory, 'engine.sock')}`;
};

afterEach(async () => {
  await server?.close();
  server = undefined;
  rmSync(directory, { recursive: true });
});

describe.each([
  ['hangs', hangingEngine],
  ['does not exist', absentEngine],
])('with a container engine that %s,', (_, engine) => {
  it('every call returns soon and waits instead of reporting absence', async () => {
    const docker_host = await engine();
    const open = () => createDockerDriver(driverOptions(docker_host));
    const target = newTarget('installation-a', { image: 'worker', network: 'host', agent: 'image' });
    const otherTarget = {
      ...target,
      node_instance_id: newTarget('installation-a', { image: 'worker' }).node_instance_id,
    };
    const driver = open();
    const startedMs = systemClock.monotonicMs();
    const [outcomes, proof, observation, diagnosis, listError] = await Promise.all([
      Promise.all([
        driver.ensure(target),
        driver.abort(target),
        open().stop(otherTarget),
        open().destroy(otherTarget),
        open().abort(otherTarget),
      ]),
      driver.prove(target, { kind: 'absent', nonce: 'asked' }),
      driver.inspect(target),
      driver.diagnose(target),
      driver.list_owned('installation-a').catch((error: Error) => error.message),
    ]);
    expect(systemClock.monotonicMs() - startedMs).toBeLessThan(maxCallMs);
    for (const outcome of [...outcomes, proof]) expect(outcome).toMatchObject({ outcome: 'wait' });
    expect(observation).toMatchObject({ present: true, unseen: true });
    expect(diagnosis).toMatchObject({ certain: false });
    expect(listError).toMatch(/engine/);
  });
});

it('fails with wrong_host for a container of another host, and does not report it as absent', async () => {
  const driver = createDockerDriver(driverOptions(await absentEngine()));
  const target = { ...newTarget('installation-a', { image: 'worker' }), state: { host_id: 'host-b' } };
  const wrongHost = { outcome: 'failed', code: 'wrong_host', retryable: true };
  expect(await driver.destroy(target)).toMatchObject(wrongHost);
  expect(await driver.prove(target, { kind: 'absent', nonce: 'asked' })).toMatchObject(wrongHost);
  expect(await driver.inspect(target)).toMatchObject({ present: true, unseen: true });
});
