/**
 * Kills the control plane with `kill -9` in the steps of a cluster's provision and release: after a
 * request took effect in Azure but before its response arrives, or before the engine records the
 * step. The next server adopts the resources that exist in Azure and creates none twice.
 */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterSpec } from '../scenarios/support/azure.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../support/allocations.ts';
import { type Arm, startArm } from '../support/arm/arm.ts';
import { paths } from '../support/arm/faults.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
  unfinishedWorkflows,
} from '../support/database-connection.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { buildTrap, type Trap } from './trap.ts';

/** A point of an operation at which the test kills the server. */
interface KillPoint {
  /** Arranges that the operation stops at the point. */
  prepare(): void | Promise<void>;
  /** Resolves when the operation has reached the point. */
  reached(): Promise<unknown>;
  /** Runs after the kill and lets the operation pass the point. */
  clear?(): void | Promise<void>;
}

describe('kill -9 in each step of an AKS cluster', () => {
  let arm: Arm;
  let firstServer: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  let trap: Trap;
  let id: string;

  beforeAll(async () => {
    arm = await startArm();
    firstServer = await spawnServer({ env: arm.environment() });
    server = firstServer;
    db = await openDatabaseConnection(firstServer.database_url);
    trap = await buildTrap(db);
    await declarePool(firstServer.client, 'clusters', { driver: 'aks', spec: clusterSpec(arm) });
  });
  afterAll(async () => {
    await db?.close();
    if (server !== firstServer) await server?.stop();
    await firstServer?.stop();
    await arm?.stop();
  });

  const requestsTo = (method: string, path: RegExp) =>
    arm.requests.filter((request) => request.method === method && path.test(request.path) && request.status !== 0);

  /** The request took effect in Azure, but its response is lost. */
  const beforeResponse = (method: string, path: RegExp): KillPoint => {
    let earlierCount = 0;
    return {
      prepare() {
        earlierCount = requestsTo(method, path).length;
        arm.faults.next({ method, path, effect: 'hang_after' });
      },
      reached: () =>
        until(`request ${method} ${path}`, () => requestsTo(method, path).length > earlierCount, { seconds: 60 }),
    };
  };
  /** The step has taken effect, but is not recorded. */
  const beforeRecord = (step: string): KillPoint => ({
    prepare: () => trap.set(step),
    reached: () => trap.sprung(),
    clear: () => trap.clear('killed'),
  });
  /** Azure is still creating the cluster. */
  const duringCreation: KillPoint = {
    prepare: () => void arm.hold('pool:blastpool'),
    reached: () =>
      until(
        'the progress to show the node pools',
        async () => (await readAllocation(server.client, id)).progress?.parts.length,
        {
          seconds: 60,
        },
      ),
    clear: () => arm.release(),
  };

  const killAtEach = async (points: KillPoint[], request: () => Promise<unknown>) => {
    await points[0]?.prepare();
    await request();
    for (const [index, point] of points.entries()) {
      await point.reached();
      await server.kill();
      await point.clear?.();
      if (server !== firstServer) await rm(server.data_dir, { recursive: true, force: true });
      await points[index + 1]?.prepare();
      server = await spawnServer({ beside: firstServer, env: arm.environment() });
    }
  };

  it('creates one cluster although the server is killed in each step of the provision', async () => {
    const points = [
      beforeRecord('assign:wait'),
      beforeResponse('PUT', paths.group),
      beforeResponse('PUT', paths.cluster),
      duringCreation,
      beforeResponse('PUT', paths.role_assignment),
      beforeRecord('launch:ensured'),
      beforeRecord('start:wait'),
      beforeRecord('engine:ended'),
    ];
    // Hold the creation from the start, or it could end before the server is killed during it.
    arm.hold('pool:blastpool');
    await killAtEach(points, async () => {
      id = await allocate(server.client, 'clusters');
    });
    await waitForStatus(server.client, id, 'active');
    await until('all workflows to end', async () => (await db.countRows(unfinishedWorkflows)) === 0, { seconds: 60 });
    expect(requestsTo('PUT', paths.cluster).map(({ status }) => status)).toEqual([201]);
    expect(arm.clustersCreated()).toBe(1);
    expect(await db.countEvidence(id, 'allocation.active')).toBe(1);
    expect(await db.countEvidence(id, 'operation.succeeded')).toBe(1);
    expect(await db.countEvidence(id, 'operation.taken_over')).toBe(points.length);
    expect(arm.resources().filter(({ kind }) => kind === 'role_assignment')).toHaveLength(1);
  }, 600_000);

  it('deletes every resource with proof although the server is killed in each step of the release', async () => {
    const points = [
      beforeRecord('fence:bar'),
      beforeRecord('freeze-evidence:driver'),
      beforeResponse('DELETE', paths.role_assignment),
      beforeResponse('DELETE', paths.cluster),
      beforeResponse('DELETE', paths.group),
      beforeRecord('prove:absent'),
      beforeRecord('engine:ended'),
    ];
    await killAtEach(points, () => release(server.client, id));
    await waitForStatus(server.client, id, 'released');
    await expectNothingLeft(db, firstServer.nodes_dir, 1);
    expect(arm.resources(), 'resources left in Azure').toEqual([]);
    expect(await db.countEvidence(id, 'allocation.released')).toBe(1);
    expect(await db.countEvidence(id, 'proof.absent')).toBeGreaterThan(0);
    expect(arm.clustersCreated()).toBe(1);
  }, 600_000);

  it('aborts and deletes with proof a cluster that is released while Azure creates it', async () => {
    arm.hold('pool:blastpool');
    id = await allocate(server.client, 'clusters');
    await duringCreation.reached();
    await killAtEach([beforeResponse('POST', paths.abort), beforeResponse('DELETE', paths.cluster)], () =>
      release(server.client, id),
    );
    arm.release();
    await waitForStatus(server.client, id, 'released');
    await expectNothingLeft(db, firstServer.nodes_dir, 1);
    expect(arm.resources(), 'resources left in Azure').toEqual([]);
    expect(await db.countEvidence(id, 'allocation.active')).toBe(0);
    expect(requestsTo('POST', paths.abort).filter(({ status }) => status < 300)).toHaveLength(1);
    const evidence = await db.query('select data, summary from evidence');
    expect(JSON.stringify(evidence) + server.output()).not.toMatch(/arm-planted/);
  }, 600_000);
});
