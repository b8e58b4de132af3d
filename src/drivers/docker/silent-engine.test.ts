/**
 * With an engine that hangs or is gone, every call answers in time for a cancel, and nothing is
 * called absent.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { driverOptions, newTarget } from '../../../test/support/docker/docker-fixture.ts';
import { type SilentListener, silentListener } from '../../../test/support/silent-listener.ts';
import { systemClock } from '../../base/clock.ts';
import { createDockerDriver } from './docker-driver.ts';

const cancelHeardWithinMs = 5_000;

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
  ['is not there', absentEngine],
])('an engine that %s', (_, engine) => {
  it('delays no call longer than a cancel may wait', async () => {
    const docker_host = await engine();
    const open = () => createDockerDriver(driverOptions(docker_host));
    const target = newTarget('installation-a', { image: 'worker', network: 'host', agent: 'image' });
    const again = { ...target, node_instance_id: newTarget('installation-a', { image: 'worker' }).node_instance_id };
    const driver = open();
    const startedMs = systemClock.monotonicMs();
    const [outcomes, proof, seen, diagnosis, listed] = await Promise.all([
      Promise.all([
        driver.ensure(target),
        driver.abort(target),
        open().stop(again),
        open().destroy(again),
        open().abort(again),
      ]),
      driver.prove(target, { kind: 'absent', nonce: 'asked' }),
      driver.observe(target),
      driver.diagnose(target),
      driver.list_owned('installation-a').catch((error: Error) => error.message),
    ]);
    expect(systemClock.monotonicMs() - startedMs).toBeLessThan(cancelHeardWithinMs);
    for (const outcome of [...outcomes, proof]) expect(outcome).toMatchObject({ outcome: 'wait' });
    expect(seen).toMatchObject({ present: true, unseen: true });
    expect(diagnosis).toMatchObject({ certain: false });
    expect(listed).toMatch(/engine/);
  });
});

it('names the host of an engine behind a socket, and looks at no other', async () => {
  const driver = createDockerDriver(driverOptions(await absentEngine()));
  const target = { ...newTarget('installation-a', { image: 'worker' }), state: { host_id: 'host-b' } };
  const elsewhere = { outcome: 'failed', code: 'wrong_host', retryable: true };
  expect(await driver.destroy(target)).toMatchObject(elsewhere);
  expect(await driver.prove(target, { kind: 'absent', nonce: 'asked' })).toMatchObject(elsewhere);
  expect(await driver.observe(target)).toMatchObject({ present: true, unseen: true });
});
