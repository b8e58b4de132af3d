/**
 * Random callers use two replicas that are killed in turn. Afterwards no allocation is lost,
 * nothing is left running, and the store finds no contradiction in the recorded history.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import { seededRandom } from '../properties/support/random.ts';
import { declarePool } from '../support/allocations.ts';
import { type DatabaseConnection, expectNothingLeft, openDatabaseConnection } from '../support/database-connection.ts';
import { type CallLog, createCaller } from './random-calls/caller.ts';
import { type Replicas, startReplicas } from './random-calls/replicas.ts';
import { readAllocations, releaseAll, retireAll } from './random-calls/settle.ts';
import { type RunRecord, runWorker } from './random-calls/worker.ts';
import { isWhole, share } from './support/outsider.ts';

const workers = share(8, 40);
const seconds = share(20, 600);
const killEverySeconds = share(6, 20);
const maxNodes = share(6, 16);
const pool = 'random';

let replicas: Replicas;
let db: DatabaseConnection;
beforeAll(async () => {
  replicas = await startReplicas();
  db = await openDatabaseConnection(replicas.servers[0].database_url);
});
afterAll(async () => {
  await db?.close();
  await replicas?.stop();
});

/**
 * Samples the pool's rows during the run. A violation is a sample with more machines than the pool
 * allows, more active allocations than machines, or two allocations on one machine.
 */
function watchOccupancy() {
  const violations: string[] = [];
  let samples = 0;
  let isStopped = false;
  const watching = (async () => {
    while (!isStopped) {
      const [row] = await db.query<{ machines: number; allocations: number; shared: number }>(
        `select (select count(*)::int from nodes where status <> 'retired' and pool = $1) as machines,
                (select count(*)::int from allocations where status = 'active' and pool = $1) as allocations,
                (select count(*)::int from (select node_id from allocations
                  where status in ('provisioning', 'active', 'releasing') and node_id is not null
                  group by node_id having count(*) > 1) crowded) as shared`,
        [pool],
      );
      samples++;
      if (!row || row.machines > maxNodes || row.allocations > row.machines || row.shared > 0)
        violations.push(JSON.stringify(row));
      await pause(systemClock, 100);
    }
  })();
  return {
    async stop() {
      isStopped = true;
      await watching;
      return { violations, samples };
    },
  };
}

it('keeps every allocation, leaves nothing behind and reaches predicted statuses while replicas are killed', {
  timeout: (seconds + 600) * 1000,
}, async () => {
  const seed = Math.trunc(Math.random() * 2 ** 31);
  console.log(`seed ${seed}: ${workers} workers for ${seconds} s, a kill every ${killEverySeconds} s`);
  const [first] = replicas.servers;
  await declarePool(first.client, pool, { max_nodes: maxNodes, spec: { clean: 'sleep 0.3' } });
  const token = first.token;
  const { next: random } = seededRandom(seed);
  const pick = (count: number) => Math.trunc(random() * count);
  const log: CallLog = { calls: 0, repeats: 0, failures: [], mismatches: [] };
  const record: RunRecord = { allocations: new Set(), predictions: [], actions: {} };
  const occupancy = watchOccupancy();
  const endMs = systemClock.monotonicMs() + 1000 * seconds;
  const clients = () => replicas.servers.map((replica) => replica.as(token));
  await Promise.all([
    replicas.killInTurn(killEverySeconds, endMs),
    ...Array.from({ length: workers }, (_, index) => {
      const id = `${randomUUID()}-${index}`;
      return runWorker(createCaller(clients, pick, log, id), { pool, id, endMs, random, record });
    }),
  ]);

  const { client } = replicas.servers[0];
  await releaseAll(client);
  await retireAll(client);
  const { violations, samples } = await occupancy.stop();

  expect(log.failures, 'answers with 5xx').toEqual([]);
  expect(log.mismatches, 'repeated requests with a different answer').toEqual([]);
  expect(violations, 'occupancy violations').toEqual([]);

  // The server has exactly the allocations that the workers created, and released each one once.
  const allocations = await readAllocations(client);
  expect(new Set(allocations.map(({ allocation_id }) => allocation_id))).toEqual(record.allocations);
  const repeatedReleases = await db.query<{ allocation_id: string; released: number }>(
    `select allocation_id, count(*)::int as released from evidence where kind = 'allocation.released'
     group by allocation_id having count(*) <> 1`,
  );
  expect(repeatedReleases, 'allocations released more than once').toEqual([]);

  // An action predicts the new status of its node. If the request changed the status, its evidence
  // must show the predicted one.
  const changes = await db.query<{ correlation_id: string; kind: string }>(
    `select distinct on (correlation_id) correlation_id, kind from evidence
     where kind like 'node.%' and data ? 'from' and correlation_id = any($1) order by correlation_id, xid, seq`,
    [record.predictions.map(({ correlation_id }) => correlation_id)],
  );
  const newStatuses = new Map(changes.map(({ correlation_id, kind }) => [correlation_id, kind.slice('node.'.length)]));
  const wrongPredictions = record.predictions.filter(
    ({ correlation_id, predicted }) => (newStatuses.get(correlation_id) ?? predicted) !== predicted,
  );
  expect(wrongPredictions, 'wrong predictions').toEqual([]);
  if (isWhole) expect(newStatuses.size, 'actions that changed a status').toBeGreaterThan(0);

  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await client.call('store-verify', { query: { limit: 500, ...(cursor && { cursor }) } });
    expect(page.items).toEqual([]);
    expect(page.unretired ?? []).toEqual([]);
    expect(page.miscounted ?? []).toEqual([]);
    cursor = page.next_cursor;
  }
  await expectNothingLeft(db, first.nodes_dir, 2);
  console.log(
    `${allocations.length} allocations, ${log.calls} calls, ${log.repeats} repeats, ${replicas.kills()} kills, ` +
      `${record.predictions.length} actions (${newStatuses.size} changed a status), ${samples} occupancy samples`,
  );
  console.log(JSON.stringify(record.actions));
});
