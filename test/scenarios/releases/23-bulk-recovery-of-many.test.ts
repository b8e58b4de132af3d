/**
 * Many releases failed at once. One command recovers all of them, and a control plane that is
 * killed during the recovery resumes where it stopped.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { buildTrap } from '../../chaos/trap.ts';
import { declarePool } from '../../support/allocations.ts';
import { openDatabaseConnection } from '../../support/database-connection.ts';
import { freePort } from '../../support/free-port.ts';
import { spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import {
  countReleaseRequests,
  countStatuses,
  expectCanaryFirst,
  expectPace,
  isOver,
  readTargets,
  recover,
} from '../support/recoveries.ts';
import { fewAtOnce, stubbornMachines, stubbornPool } from '../support/stubborn-machines.ts';

/**
 * Enough for several rounds. SLIPWAY_RECOVER_MANY sets another number; 200 take minutes.
 */
const externalCount = Number(process.env.SLIPWAY_RECOVER_MANY ?? 40);
const localCount = 3;
const perMinute = 1200;

it(`recovers ${externalCount + localCount} releases with one command, each once, even if the server is killed`, async () => {
  const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
  const port = await freePort();
  const first = await spawnServer({ port });
  let server = first;
  const db = await openDatabaseConnection(first.database_url);
  const trap = await buildTrap(db);
  let machines: Awaited<ReturnType<typeof stubbornMachines>> | undefined;
  cleanups.push(async () => {
    await server.kill();
    await machines?.end();
    await db.close();
    await first.stop();
    await rm(files, { recursive: true, force: true });
  });
  const releaseCount = externalCount + localCount;
  const { client } = first;
  const waitForCount = (status: string, many: number) =>
    until(`${many} to be ${status}`, async () => (await countStatuses(db))[status] === many, {
      seconds: 240,
      every_ms: 200,
    });
  const cleanable = join(files, 'cleanable');

  await client.call('pool-put', { params: { pool: 'racks' }, body: stubbornPool });
  await declarePool(client, 'local-ones', {
    ...stubbornPool,
    driver: 'local',
    spec: { clean: `test -e ${cleanable} || { echo no space left; exit 3; }` },
  });
  machines = await stubbornMachines(first, 'racks', externalCount);
  const startedMs = performance.now();
  const elapsedSeconds = () => ((performance.now() - startedMs) / 1000).toFixed(1);
  const allocateIn = async (pool: string) => {
    const { allocation } = await client.call('allocation-create', { body: { pool } });
    return allocation.allocation_id;
  };
  const ids = await fewAtOnce(releaseCount, (i) => allocateIn(i < localCount ? 'local-ones' : 'racks'));
  await waitForCount('active', releaseCount);
  const activeAfter = elapsedSeconds();
  await fewAtOnce(releaseCount, (i) => client.call('allocation-release', { params: { id: ids[i] ?? '' } }));
  await waitForCount('release_failed', releaseCount);
  const failedAfter = elapsedSeconds();

  machines.relent();
  await writeFile(cleanable, '');
  // Stops the server in the third round after the canary.
  await trap.set('rest:round#3');
  const recovery = await recover(client, { filter: { status: 'release_failed' }, per_minute: perMinute });
  await trap.sprung();
  const recoveredBefore = (await readTargets(db, recovery)).filter(({ acted_ms }) => acted_ms !== null).length;
  await server.kill();
  await trap.clear('killed');
  expect(recoveredBefore, 'targets recovered before the kill').toBeGreaterThan(1);
  expect(recoveredBefore).toBeLessThan(releaseCount);
  const killedAfter = elapsedSeconds();
  server = await spawnServer({ beside: first, port });

  const endedOperation = await until(
    'the recovery to end',
    async () => {
      const operation = await server.client.call('operation-get', { params: { id: recovery } });
      return isOver(operation) ? operation : undefined;
    },
    { seconds: 240, every_ms: 250 },
  );
  console.log(
    `${releaseCount} at once: active after ${activeAfter} s, failed to release after ${failedAfter} s, server killed after ${killedAfter} s with ${recoveredBefore} targets recovered, recovered after ${elapsedSeconds()} s`,
  );
  expect(endedOperation).toMatchObject({
    status: 'succeeded',
    progress: { parts: [{ state: 'recovered', tone: 'ok', count: releaseCount }] },
  });
  expect(await countStatuses(db)).toEqual({ released: releaseCount });
  const targets = await readTargets(db, recovery);
  expect(targets.filter(({ state }) => state === 'recovered')).toHaveLength(releaseCount);
  expectCanaryFirst(targets);
  expectPace(targets, perMinute);
  const requests = await countReleaseRequests(db, recovery);
  expect(requests).toHaveLength(releaseCount);
  expect(
    requests.filter(({ times, actors }) => times !== 1 || actors !== 1),
    'targets without exactly one release request that names its actor',
  ).toEqual([]);
  expect(
    await db.countRows(`select 1 from evidence where kind = 'operation.taken_over' and workflow_id = $1`, [recovery]),
  ).toBe(1);
}, 600_000);

const cleanups: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const clean of cleanups) await clean();
});
