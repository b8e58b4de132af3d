/**
 * Releases of machines that resist, on real processes and a real host: each ends `released` with proof, or `release_failed`
 * with the step and the layer that owns the problem; none hangs, and each ends well once its cause is gone. The release of a
 * machine whose agent is dead is scenario 17; what the host refuses a plain user, and the counter-test, is hard-endings.unprivileged.test.ts.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { declarePool, readAllocation, release } from '../../support/allocations.ts';
import { openLedger } from '../../support/ledger.ts';
import { inProcessServer } from '../../support/server.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';
import {
  activeMachine,
  expectReleased,
  expectReleaseFailed,
  ignoringSignals,
  impatient,
  type Stage,
  undeletable,
} from '../support/hard-endings.ts';
import { fillDisk, mountSmallDisk, type Obstacle } from '../support/stubborn-host.ts';

vi.setConfig({ testTimeout: 150_000 });

/** Large enough for two agents and what they keep, small enough to be filled at once. */
const diskKilobytes = 8 * 1024;

let stage: Stage;
let disk: Obstacle | undefined;
beforeAll(async () => {
  const server = await inProcessServer();
  stage = { server, ledger: await openLedger(server.database_url) };
  disk = await mountSmallDisk(server.nodes_dir, diskKilobytes);
});
afterAll(async () => {
  await stage?.ledger.close();
  await disk?.remove();
  await stage?.server.stop();
});

it('a directory that cannot be deleted: the host refuses, and the release says so until it can be', () =>
  undeletable(stage));

it('a command that ignores every polite signal is ended all the same', () => ignoringSignals(stage, 'deaf'));

it('a command that ignores every polite signal, with its agent dead, is ended by the driver', () =>
  ignoringSignals(stage, 'deaf-orphan', async () => {
    const running = () => findTaggedProcesses(stage.ledger.installation_id);
    await until('its command to run', () => running().some(({ agent }) => !agent));
    process.kill(running().find(({ agent }) => agent)?.pid ?? 0, 'SIGKILL');
  }));

it('a disk that is full: the release ends, or says whose problem it is until there is room', async () => {
  const { server } = stage;
  const writes = 'head -c 65536 /dev/zero > scratch && rm scratch';
  // Without a disk of our own to fill it is simulated: the pool's clean says what a full disk would have it say.
  const says = 'echo "cannot write: No space left on device" >&2; test -e ../room';
  const spec = { command: ['sleep', '600'], clean: disk ? writes : says };
  await declarePool(server.client, 'full', { spec, release: impatient });
  const { id, directory } = await activeMachine(stage, 'full');
  if (!disk)
    console.log('simulated: no file system of our own can be mounted here, so the clean only says that it is full');
  const filler = disk ? await fillDisk(server.nodes_dir) : undefined;
  await release(server.client, id);
  const failed = await expectReleaseFailed(stage, id);
  expect(failed.reason).toMatch(/^release failed at step clean \(owner (node|provider)\): /);
  expect(failed.reason).toMatch(/no space left on device/i);
  expect((await readAllocation(server.client, id)).owner_layer).toMatch(/^(node|provider)$/);
  if (filler) await filler.remove();
  else await writeFile(join(directory, 'room'), '');
  await expectReleased(stage, id);
});
