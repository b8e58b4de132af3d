/**
 * The control plane is killed with `kill -9` in each step of a provision and of a release,
 * and its successor finishes the operation. Each point is the worst moment of its step: the work is
 * done, but not recorded (trap.ts).
 */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allocate, declarePool, release, waitForStatus } from '../support/allocations.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
  unfinishedWorkflows,
} from '../support/database-connection.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { type LaunchWatch, watchLaunches } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';
import { buildTrap, type Trap } from './trap.ts';

/** The points in the order of the operation. Each stage of the plan has at least one. */
const provisionPoints = ['assign:wait', 'launch:ensure:1', 'register:wait', 'start:wait', 'engine:ended'];
const releasePoints = [
  'fence:bar',
  'freeze-evidence:agent:ask',
  'freeze-evidence:driver',
  'drain:wait',
  'stop:agent:ask',
  'clean:agent:1:ask',
  'clean:agent:1:kept',
  'clean:stop:1',
  'clean:destroy:1',
  'prove:absent',
  'free:door',
  'engine:ended',
];

/** The stages of the plan without a kill; a new stage must get a point. */
const untriedStages = async (db: DatabaseConnection, kind: string, points: string[]) => {
  const planned = await db.query<{ name: string }>(
    'select name from steps join operations using (workflow_id) where kind = $1 order by ordinal',
    [kind],
  );
  expect(planned.length, `steps of ${kind}`).toBeGreaterThan(0);
  return planned.map(({ name }) => name).filter((name) => !points.some((point) => point.startsWith(`${name}:`)));
};

/** Long enough for a busy machine to start the next server; the agent stays reachable meanwhile. */
const heartbeat = { interval_seconds: 2, stale_after_seconds: 600 };

describe('kill -9 in each step', () => {
  let first: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  let trap: Trap;
  let launches: LaunchWatch;
  let port: number;
  let allocation_id: string;
  let node_instance_id: string;

  beforeAll(async () => {
    port = await freePort();
    first = await spawnServer({ port });
    server = first;
    db = await openDatabaseConnection(first.database_url);
    trap = await buildTrap(db);
    launches = watchLaunches(db.installation_id);
    await declarePool(first.client, 'killed', { heartbeat });
  });
  afterAll(async () => {
    launches?.stop();
    await db?.close();
    if (server !== first) await server?.stop();
    await first?.stop();
  });

  const killInTrap = async () => {
    await trap.sprung();
    await server.kill();
    await trap.clear('killed');
    if (server !== first) await rm(server.data_dir, { recursive: true, force: true });
  };
  const restart = async () => {
    server = await spawnServer({ beside: first, port });
  };
  /**
   * The trap is set before the operation reaches the step: for the first point before the request,
   * then while no server runs.
   */
  const dieAtEach = async (points: string[], begin: () => Promise<unknown>) => {
    await trap.set(points[0] ?? '');
    await begin();
    for (const next of [...points.slice(1), null]) {
      await killInTrap();
      if (next) await trap.set(next);
      await restart();
    }
  };

  it('provision: brings the machine up once', async () => {
    await dieAtEach(provisionPoints, async () => {
      allocation_id = await allocate(server.client, 'killed');
    });
    const active = await waitForStatus(server.client, allocation_id, 'active');
    await until('all workflows to end', async () => (await db.countRows(unfinishedWorkflows)) === 0, { seconds: 60 });

    expect(await untriedStages(db, 'node-provision', provisionPoints)).toEqual([]);
    expect(await db.countEvidence(allocation_id, 'allocation.active')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'operation.succeeded')).toBe(1);
    const instances = await db.query<{ node_instance_id: string }>('select node_instance_id from instances');
    expect(instances).toHaveLength(1);
    node_instance_id = instances[0]?.node_instance_id ?? '';
    expect(active.node_id).toBeTruthy();
    // The machine is one process, however often the server was killed.
    expect([...launches.agents()].map(([id, pids]) => [id, pids.size])).toEqual([[node_instance_id, 1]]);
    expect(await db.countEvidence(allocation_id, 'operation.taken_over')).toBe(provisionPoints.length);
  }, 600_000);

  it('release: takes the machine down once, with proof', async () => {
    await dieAtEach(releasePoints, () => release(server.client, allocation_id));
    await waitForStatus(server.client, allocation_id, 'released');
    await expectNothingLeft(db, first.nodes_dir, 1);

    expect(await untriedStages(db, 'allocation-release', releasePoints)).toEqual([]);
    expect(await db.countEvidence(allocation_id, 'allocation.released')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'allocation.releasing')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'node.retired')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'proof.absent')).toBeGreaterThan(0);
    expect(await db.countRows(`select 1 from operations where kind = 'allocation-release'`)).toBe(1);
    expect([...launches.agents()].map(([id, pids]) => [id, pids.size])).toEqual([[node_instance_id, 1]]);
  }, 300_000);
});
