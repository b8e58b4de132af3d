/**
 * Releases of machines that resist, on real processes and a real host: each ends `released` with proof, or `release_failed`
 * with the step and the layer that owns the problem; none hangs, and each ends well once its cause is gone. The release of a
 * machine whose agent is dead is scenario 17.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { expectNothingLeft, type Ledger, openLedger } from '../support/ledger.ts';
import { allocate, allocation, becomes, declarePool, release } from '../support/machine-life.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { taggedProcesses } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';
import { fillDisk, makeUndeletable, mountSmallDisk, type Obstacle } from './support/stubborn-host.ts';

vi.setConfig({ testTimeout: 150_000 });

/** Large enough for two agents and what they keep, small enough to be filled at once. */
const diskKilobytes = 8 * 1024;
/** Less than an agent is given to answer whether it has cleaned up. */
const withinSeconds = 40;
const impatient = { step_tries: 2, retry_base_seconds: 0.5, retry_max_seconds: 1 };

let server: TestServer;
let ledger: Ledger;
let disk: Obstacle | undefined;
beforeAll(async () => {
  server = await inProcessServer();
  ledger = await openLedger(server.database_url);
  disk = await mountSmallDisk(server.nodes_dir, diskKilobytes);
});
afterAll(async () => {
  await ledger?.close();
  await disk?.remove();
  await server?.stop();
});

async function active(pool: string): Promise<{ id: string; directory: string }> {
  const id = await allocate(server.client, pool);
  const { node_id } = await becomes(server.client, id, 'active');
  const node = await server.client.call('node-get', { params: { id: node_id ?? '' } });
  return { id, directory: join(server.nodes_dir, node.node_instance_id ?? '') };
}

async function endsReleased(id: string): Promise<void> {
  await becomes(server.client, id, 'released');
  await expectNothingLeft(ledger, server.nodes_dir, 1);
  expect(await ledger.facts(id, 'allocation.released')).toBe(1);
  expect(await ledger.facts(id, 'proof.absent')).toBe(1);
}

async function endsFailed(id: string) {
  const failed = await becomes(server.client, id, 'release_failed');
  const node = await server.client.call('node-get', { params: { id: failed.node_id ?? '' } });
  expect(node).toMatchObject({ status: 'cleaning', fenced: true, occupancy: 'cleanup' });
  expect(await ledger.facts(id, 'allocation.released')).toBe(0);
  expect(await ledger.facts(id, 'proof.absent')).toBe(0);
  return failed;
}

it('a directory that cannot be deleted: the host refuses, and the release says so until it can be', async () => {
  await declarePool(server.client, 'kept', { spec: { command: ['sleep', '600'] }, release: impatient });
  const { id, directory } = await active('kept');
  const obstacle = await makeUndeletable(directory);
  await release(server.client, id);
  if (!obstacle) {
    console.log('not shown here: nothing on this host can make a directory undeletable for this user');
    return endsReleased(id);
  }
  try {
    const failed = await endsFailed(id);
    expect(failed.reason, obstacle.how).toMatch(
      /^release failed at step clean \(owner provider\): the host refused: E/,
    );
    expect(failed.owner_layer).toBe('provider');
    // Its processes are gone all the same: nobody works in what could not be deleted.
    expect(taggedProcesses(ledger.installation_id)).toEqual([]);
  } finally {
    await obstacle.remove();
  }
  // Nobody waits for the answers of an agent that was ended by the first try.
  const removedMs = performance.now();
  await endsReleased(id);
  expect((performance.now() - removedMs) / 1000).toBeLessThan(withinSeconds);
});

it('a command that ignores every polite signal is ended all the same', async () => {
  const deaf = `trap '' TERM INT HUP; while :; do sleep 1; done`;
  await declarePool(server.client, 'deaf', { spec: { command: ['/bin/sh', '-c', deaf] }, release: impatient });
  const { id } = await active('deaf');
  await release(server.client, id);
  await endsReleased(id);
});

it('a command that ignores every polite signal, with its agent dead, is ended by the driver', async () => {
  const deaf = `trap '' TERM INT HUP; while :; do sleep 1; done`;
  await declarePool(server.client, 'deaf-orphan', { spec: { command: ['/bin/sh', '-c', deaf] }, release: impatient });
  const { id } = await active('deaf-orphan');
  const running = () => taggedProcesses(ledger.installation_id);
  await until('its command to run', () => running().some(({ agent }) => !agent));
  process.kill(running().find(({ agent }) => agent)?.pid ?? 0, 'SIGKILL');
  await release(server.client, id);
  await endsReleased(id);
});

it('a disk that is full: the release ends, or says whose problem it is until there is room', async () => {
  const writes = 'head -c 65536 /dev/zero > scratch && rm scratch';
  // Without a disk of our own to fill it is simulated: the pool's clean says what a full disk would have it say.
  const says = 'echo "cannot write: No space left on device" >&2; test -e ../room';
  const spec = { command: ['sleep', '600'], clean: disk ? writes : says };
  await declarePool(server.client, 'full', { spec, release: impatient });
  const { id, directory } = await active('full');
  if (!disk)
    console.log('simulated: no file system of our own can be mounted here, so the clean only says that it is full');
  const filler = disk ? await fillDisk(server.nodes_dir) : undefined;
  await release(server.client, id);
  const failed = await endsFailed(id);
  expect(failed.reason).toMatch(/^release failed at step clean \(owner (node|provider)\): /);
  expect(failed.reason).toMatch(/no space left on device/i);
  expect((await allocation(server.client, id)).owner_layer).toMatch(/^(node|provider)$/);
  if (filler) await filler.remove();
  else await writeFile(join(directory, 'room'), '');
  await endsReleased(id);
});
