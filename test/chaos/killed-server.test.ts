/**
 * Kills the control plane with `kill -9` in each step of a provision and of a release; the next
 * server finishes the operation. The kill comes at the worst moment of the step: the step has taken
 * effect, but is not recorded (trap.ts).
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

/** The engine steps in which the test kills the server, in order; at least one for each stage. */
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

/** Finds the stages of the plan in which the test does not kill the server. */
const findStagesWithoutKill = async (db: DatabaseConnection, kind: string, points: string[]) => {
  const stages = await db.query<{ name: string }>(
    'select name from steps join operations using (workflow_id) where kind = $1 order by ordinal',
    [kind],
  );
  expect(stages.length, `stages of ${kind}`).toBeGreaterThan(0);
  return stages.map(({ name }) => name).filter((name) => !points.some((point) => point.startsWith(`${name}:`)));
};

/** The stale time is so long that no node goes offline while a busy host starts the next server. */
const heartbeat = { interval_seconds: 2, stale_after_seconds: 600 };

describe('kill -9 in each step', () => {
  let firstServer: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  let trap: Trap;
  let launches: LaunchWatch;
  let port: number;
  let allocation_id: string;
  let node_instance_id: string;

  beforeAll(async () => {
    port = await freePort();
    firstServer = await spawnServer({ port });
    server = firstServer;
    db = await openDatabaseConnection(firstServer.database_url);
    trap = await buildTrap(db);
    launches = watchLaunches(db.installation_id);
    await declarePool(firstServer.client, 'killed', { heartbeat });
  });
  afterAll(async () => {
    launches?.stop();
    await db?.close();
    if (server !== firstServer) await server?.stop();
    await firstServer?.stop();
  });

  const killInTrap = async () => {
    await trap.sprung();
    await server.kill();
    await trap.clear('killed');
    if (server !== firstServer) await rm(server.data_dir, { recursive: true, force: true });
  };
  const restart = async () => {
    server = await spawnServer({ beside: firstServer, port });
  };
  /**
   * Sets each trap before the operation can reach it: before the request, or while no server runs.
   */
  const killAtEach = async (points: string[], request: () => Promise<unknown>) => {
    await trap.set(points[0] ?? '');
    await request();
    for (const next of [...points.slice(1), null]) {
      await killInTrap();
      if (next) await trap.set(next);
      await restart();
    }
  };

  it('launches the machine once although the server is killed in each step of the provision', async () => {
    await killAtEach(provisionPoints, async () => {
      allocation_id = await allocate(server.client, 'killed');
    });
    const active = await waitForStatus(server.client, allocation_id, 'active');
    await until('all workflows to end', async () => (await db.countRows(unfinishedWorkflows)) === 0, { seconds: 60 });

    expect(await findStagesWithoutKill(db, 'node-provision', provisionPoints)).toEqual([]);
    expect(await db.countEvidence(allocation_id, 'allocation.active')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'operation.succeeded')).toBe(1);
    const instances = await db.query<{ node_instance_id: string }>('select node_instance_id from instances');
    expect(instances).toHaveLength(1);
    node_instance_id = instances[0]?.node_instance_id ?? '';
    expect(active.node_id).toBeTruthy();
    // Only one agent process was ever launched, although the server was killed in the launch step.
    expect([...launches.agents()].map(([id, pids]) => [id, pids.size])).toEqual([[node_instance_id, 1]]);
    expect(await db.countEvidence(allocation_id, 'operation.taken_over')).toBe(provisionPoints.length);
  }, 600_000);

  it('tears the machine down once, with proof, although the server is killed in each step of the release', async () => {
    await killAtEach(releasePoints, () => release(server.client, allocation_id));
    await waitForStatus(server.client, allocation_id, 'released');
    await expectNothingLeft(db, firstServer.nodes_dir, 1);

    expect(await findStagesWithoutKill(db, 'allocation-release', releasePoints)).toEqual([]);
    expect(await db.countEvidence(allocation_id, 'allocation.released')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'allocation.releasing')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'node.retired')).toBe(1);
    expect(await db.countEvidence(allocation_id, 'proof.absent')).toBeGreaterThan(0);
    expect(await db.countRows(`select 1 from operations where kind = 'allocation-release'`)).toBe(1);
    expect([...launches.agents()].map(([id, pids]) => [id, pids.size])).toEqual([[node_instance_id, 1]]);
  }, 300_000);
});
