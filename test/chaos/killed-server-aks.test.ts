/**
 * The control plane is killed with `kill -9` in each step of a cluster's bring-up and
 * take-down, mostly between Azure's effect and its answer. The next server adopts what exists in
 * Azure and requests nothing twice.
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

/** A moment of death: how it is prepared, and how the test knows that it came. */
interface Point {
  name: string;
  prepare(): void | Promise<void>;
  come(): Promise<unknown>;
  over?(): void | Promise<void>;
}

describe('kill -9 in each step of an AKS cluster', () => {
  let arm: Arm;
  let first: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  let trap: Trap;
  let id: string;

  beforeAll(async () => {
    arm = await startArm();
    first = await spawnServer({ env: arm.environment() });
    server = first;
    db = await openDatabaseConnection(first.database_url);
    trap = await buildTrap(db);
    await declarePool(first.client, 'clusters', { driver: 'aks', spec: clusterSpec(arm) });
  });
  afterAll(async () => {
    await db?.close();
    if (server !== first) await server?.stop();
    await first?.stop();
    await arm?.stop();
  });

  const requestsTo = (method: string, path: RegExp) =>
    arm.requests.filter((request) => request.method === method && path.test(request.path) && request.status !== 0);

  /** The request took effect in Azure, but its answer is lost. */
  const unanswered = (method: string, path: RegExp): Point => {
    let before = 0;
    return {
      name: `${method} ${path}`,
      prepare() {
        before = requestsTo(method, path).length;
        arm.faults.next({ method, path, effect: 'hang_after' });
      },
      come: () => until(`${method} ${path}`, () => requestsTo(method, path).length > before, { seconds: 60 }),
    };
  };
  /** The step is done, but not recorded. */
  const unrecorded = (step: string): Point => ({
    name: step,
    prepare: () => trap.set(step),
    come: () => trap.sprung(),
    over: () => trap.clear('killed'),
  });
  /** Azure is still working on it. */
  const underWay: Point = {
    name: 'under way',
    prepare: () => void arm.hold('pool:blastpool'),
    come: () =>
      until('the pools to be shown', async () => (await readAllocation(server.client, id)).progress?.parts.length, {
        seconds: 60,
      }),
    over: () => arm.release(),
  };

  const dieAtEach = async (points: Point[], begin: () => Promise<unknown>) => {
    await points[0]?.prepare();
    await begin();
    for (const [index, point] of points.entries()) {
      await point.come();
      await server.kill();
      await point.over?.();
      if (server !== first) await rm(server.data_dir, { recursive: true, force: true });
      await points[index + 1]?.prepare();
      server = await spawnServer({ beside: first, env: arm.environment() });
    }
  };

  it('bring-up: requests one cluster from Azure', async () => {
    const points = [
      unrecorded('assign:wait'),
      unanswered('PUT', paths.group),
      unanswered('PUT', paths.cluster),
      underWay,
      unanswered('PUT', paths.role_assignment),
      unrecorded('launch:ensured'),
      unrecorded('start:wait'),
      unrecorded('engine:ended'),
    ];
    // Held from the start, so that the operation does not end before the next server has started.
    if (points.includes(underWay)) arm.hold('pool:blastpool');
    await dieAtEach(points, async () => {
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

  it('take-down: leaves nothing in Azure, with proof', async () => {
    const points = [
      unrecorded('fence:bar'),
      unrecorded('freeze-evidence:driver'),
      unanswered('DELETE', paths.role_assignment),
      unanswered('DELETE', paths.cluster),
      unanswered('DELETE', paths.group),
      unrecorded('prove:absent'),
      unrecorded('engine:ended'),
    ];
    await dieAtEach(points, () => release(server.client, id));
    await waitForStatus(server.client, id, 'released');
    await expectNothingLeft(db, first.nodes_dir, 1);
    expect(arm.resources(), 'what is left in Azure').toEqual([]);
    expect(await db.countEvidence(id, 'allocation.released')).toBe(1);
    expect(await db.countEvidence(id, 'proof.absent')).toBeGreaterThan(0);
    expect(arm.clustersCreated()).toBe(1);
  }, 600_000);

  it('cancel while Azure creates: aborts, deletes and proves absence', async () => {
    arm.hold('pool:blastpool');
    id = await allocate(server.client, 'clusters');
    await underWay.come();
    await dieAtEach([unanswered('POST', paths.abort), unanswered('DELETE', paths.cluster)], () =>
      release(server.client, id),
    );
    arm.release();
    await waitForStatus(server.client, id, 'released');
    await expectNothingLeft(db, first.nodes_dir, 1);
    expect(arm.resources(), 'what is left in Azure').toEqual([]);
    expect(await db.countEvidence(id, 'allocation.active')).toBe(0);
    expect(requestsTo('POST', paths.abort).filter(({ status }) => status < 300)).toHaveLength(1);
    const everything = await db.query('select data, summary from evidence');
    expect(JSON.stringify(everything) + server.output()).not.toMatch(/arm-planted/);
  }, 600_000);
});
