/**
 * Releases of machines that resist, on real processes and a real host. Each ends `released` with
 * proof or `release_failed` with the step and the owner. None hangs, and each succeeds once its
 * cause is gone. 17-dead-node.test.ts covers dead agents. hard-endings.unprivileged.test.ts covers
 * plain users and holds the counter-test.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { declarePool, release } from '../../support/allocations.ts';
import { openDatabaseConnection } from '../../support/database-connection.ts';
import { inProcessServer } from '../../support/server.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';
import {
  activeMachine,
  expectEndDespiteIgnoredSignals,
  expectFailureWhileUndeletable,
  expectReleased,
  expectReleaseFailed,
  fewTries,
  type ReleaseContext,
} from '../support/hard-endings.ts';
import { fillDisk, mountSmallDisk, type Obstacle } from '../support/stubborn-host.ts';

vi.setConfig({ testTimeout: 150_000 });

/** Large enough for two agents and their files, small enough to fill at once. */
const diskKilobytes = 8 * 1024;

let context: ReleaseContext;
let disk: Obstacle | undefined;
beforeAll(async () => {
  const server = await inProcessServer();
  context = { server, db: await openDatabaseConnection(server.database_url) };
  disk = await mountSmallDisk(server.nodes_dir, diskKilobytes);
});
afterAll(async () => {
  await context?.db.close();
  await disk?.remove();
  await context?.server.stop();
});

it('fails the release while the directory cannot be deleted, and succeeds afterwards', () =>
  expectFailureWhileUndeletable(context));

it('ends a command that ignores SIGTERM, SIGINT and SIGHUP', () => expectEndDespiteIgnoredSignals(context, 'deaf'));

it('ends a command that ignores signals through the driver when its agent is dead', () =>
  expectEndDespiteIgnoredSignals(context, 'deaf-orphan', async () => {
    const findProcesses = () => findTaggedProcesses(context.db.installation_id);
    await until('the command to run', () => findProcesses().some(({ agent }) => !agent));
    process.kill(findProcesses().find(({ agent }) => agent)?.pid ?? 0, 'SIGKILL');
  }));

it('fails the release on a full disk with its owner, and succeeds once there is space', async () => {
  const { server } = context;
  const writes = 'head -c 65536 /dev/zero > scratch && rm scratch';
  // Without a disk to fill, the pool's clean prints the error of a full disk.
  const printsError = 'echo "cannot write: No space left on device" >&2; test -e ../room';
  const spec = { command: ['sleep', '600'], clean: disk ? writes : printsError };
  await declarePool(server.client, 'full', { spec, release: fewTries });
  const { id, directory } = await activeMachine(context, 'full');
  if (!disk)
    console.log('simulated: no file system can be mounted here, so the clean only prints the error of a full disk');
  const filler = disk ? await fillDisk(server.nodes_dir) : undefined;
  await release(server.client, id);
  expect(await expectReleaseFailed(context, id)).toMatchObject({
    stage: 'clean',
    owner_layer: expect.stringMatching(/^(node|provider)$/),
    code: expect.stringMatching(/^(clean_failed|host_disk_full)$/),
    message: expect.stringMatching(/no space left on device/i),
  });
  if (filler) await filler.remove();
  else await writeFile(join(directory, 'room'), '');
  await expectReleased(context, id);
});
