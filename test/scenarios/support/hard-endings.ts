/**
 * Shared by the tests of machines that resist their release. Each release must end with proof, or
 * as a failure that names its owner.
 */
import { join } from 'node:path';
import { expect } from 'vitest';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { type DatabaseConnection, expectNothingLeft } from '../../support/database-connection.ts';
import type { TestServer } from '../../support/server.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';
import { makeUndeletable } from './stubborn-host.ts';

/** Less than the time that an agent gets to report its clean-up. */
const maxRetrySeconds = 40;
export const fewTries = { step_tries: 2, retry_base_seconds: 0.5, retry_max_seconds: 1 };

export interface ReleaseContext {
  server: TestServer;
  db: DatabaseConnection;
}

export async function activeMachine(
  { server }: ReleaseContext,
  pool: string,
): Promise<{ id: string; directory: string }> {
  const id = await allocate(server.client, pool);
  const { node_id } = await waitForStatus(server.client, id, 'active');
  const node = await server.client.call('node-get', { params: { id: node_id ?? '' } });
  return { id, directory: join(server.nodes_dir, node.node_instance_id ?? '') };
}

export async function expectReleased({ server, db }: ReleaseContext, id: string): Promise<void> {
  await waitForStatus(server.client, id, 'released');
  await expectNothingLeft(db, server.nodes_dir, 1);
  expect(await db.countEvidence(id, 'allocation.released')).toBe(1);
  expect(await db.countEvidence(id, 'proof.absent')).toBe(1);
}

/** The evidence of a failed release. */
export interface ReleaseFailure {
  stage: string;
  owner_layer: string;
  code: string;
  message: string;
}

export async function expectReleaseFailed({ server, db }: ReleaseContext, id: string): Promise<ReleaseFailure> {
  const failed = await until(
    'the release to end',
    async () => {
      const allocation = await readAllocation(server.client, id);
      return ['release_failed', 'released'].includes(allocation.status) ? allocation : undefined;
    },
    { seconds: 60 },
  );
  expect(failed.status, 'the status after the release').toBe('release_failed');
  const node = await server.client.call('node-get', { params: { id: failed.node_id ?? '' } });
  expect(node).toMatchObject({ status: 'cleaning', fenced: true, occupancy: 'cleanup' });
  expect(await db.countEvidence(id, 'allocation.released')).toBe(0);
  expect(await db.countEvidence(id, 'proof.absent')).toBe(0);
  const [fact] = await db.query<{ failure: ReleaseFailure }>(
    `select data -> 'evidence' as failure
     from evidence
     where allocation_id = $1 and kind = 'allocation.release_failed'
     order by seq desc
     limit 1`,
    [id],
  );
  if (!fact) throw new Error('the failed release left no evidence');
  expect(failed.owner_layer).toBe(fact.failure.owner_layer);
  return fact.failure;
}

export async function expectFailureWhileUndeletable(context: ReleaseContext): Promise<void> {
  const { server, db } = context;
  await declarePool(server.client, 'kept', { spec: { command: ['sleep', '600'] }, release: fewTries });
  const { id, directory } = await activeMachine(context, 'kept');
  const obstacle = await makeUndeletable(directory);
  await release(server.client, id);
  if (!obstacle) {
    console.log('skipped: nothing on this host can make a directory undeletable for this user');
    return expectReleased(context, id);
  }
  try {
    expect(await expectReleaseFailed(context, id), obstacle.how).toMatchObject({
      stage: 'clean',
      owner_layer: 'provider',
      code: expect.stringMatching(/^host_(permission_denied|directory_busy)$/),
    });
    // The processes have ended nevertheless, so nothing runs in the undeletable directory.
    expect(findTaggedProcesses(db.installation_id)).toEqual([]);
  } finally {
    await obstacle.remove();
  }
  // The retry must not wait for an answer of the agent, which the first try has already ended.
  const removedMs = performance.now();
  await expectReleased(context, id);
  expect((performance.now() - removedMs) / 1000).toBeLessThan(maxRetrySeconds);
}

/** Releases a machine with a command that ignores SIGTERM, SIGINT and SIGHUP. */
export async function expectEndDespiteIgnoredSignals(
  context: ReleaseContext,
  pool: string,
  before: () => Promise<void> = async () => {},
): Promise<void> {
  const command = ['/bin/sh', '-c', `trap '' TERM INT HUP; while :; do sleep 1; done`];
  await declarePool(context.server.client, pool, { spec: { command }, release: fewTries });
  const { id } = await activeMachine(context, pool);
  await before();
  await release(context.server.client, id);
  await expectReleased(context, id);
}
