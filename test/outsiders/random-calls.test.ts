/**
 * Two replicas under random calls, killed in turn. Afterwards nothing is lost, left over or
 * unfinished, and the model allows the recorded history.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import { seededRandom } from '../properties/support/random.ts';
import { declarePool } from '../support/allocations.ts';
import { type DatabaseConnection, expectNothingLeft, openDatabaseConnection } from '../support/database-connection.ts';
import { createCaller, type Log } from './random-calls/caller.ts';
import { type Replicas, startReplicas } from './random-calls/replicas.ts';
import { everyAllocation, releaseAll, retireAll } from './random-calls/settle.ts';
import { type Done, work } from './random-calls/worker.ts';
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
  db = await openDatabaseConnection(replicas.both[0].database_url);
});
afterAll(async () => {
  await db?.close();
  await replicas?.stop();
});

/**
 * Watches the pool's rows throughout: never more machines than allowed, and no count below zero.
 */
function watchOccupancy() {
  const wrong: string[] = [];
  let looks = 0;
  let over = false;
  const watching = (async () => {
    while (!over) {
      const [row] = await db.query<{ machines: number; allocations: number; twice: number }>(
        `select (select count(*)::int from nodes where status <> 'retired' and pool = $1) as machines,
                (select count(*)::int from allocations where status = 'active' and pool = $1) as allocations,
                (select count(*)::int from (select node_id from allocations
                  where status in ('provisioning', 'active', 'releasing') and node_id is not null
                  group by node_id having count(*) > 1) shared) as twice`,
        [pool],
      );
      looks++;
      if (!row || row.machines > maxNodes || row.allocations > row.machines || row.twice > 0)
        wrong.push(JSON.stringify(row));
      await pause(systemClock, 100);
    }
  })();
  return {
    async end() {
      over = true;
      await watching;
      return { wrong, looks };
    },
  };
}

it('loses nothing, leaves nothing behind and does what it predicted', { timeout: (seconds + 600) * 1000 }, async () => {
  const seed = Math.trunc(Math.random() * 2 ** 31);
  console.log(`seed ${seed}: ${workers} workers for ${seconds} s, a kill every ${killEverySeconds} s`);
  const [first] = replicas.both;
  await declarePool(first.client, pool, { max_nodes: maxNodes, spec: { clean: 'sleep 0.3' } });
  const token = first.token;
  const { next: random } = seededRandom(seed);
  const pick = (count: number) => Math.trunc(random() * count);
  const log: Log = { calls: 0, repeats: 0, failures: [], differing: [] };
  const done: Done = { allocations: new Set(), predictions: [], actions: {} };
  const occupancy = watchOccupancy();
  const endMs = systemClock.monotonicMs() + 1000 * seconds;
  const clients = () => replicas.both.map((replica) => replica.as(token));
  await Promise.all([
    replicas.killInTurn(killEverySeconds, endMs),
    ...Array.from({ length: workers }, (_, index) => {
      const id = `${randomUUID()}-${index}`;
      return work(createCaller(clients, pick, log, id), { pool, id, endMs, random, done });
    }),
  ]);

  const { client } = replicas.both[0];
  await releaseAll(client);
  await retireAll(client);
  const { wrong, looks } = await occupancy.end();

  expect(log.failures).toEqual([]);
  expect(log.differing, 'repeats with another answer').toEqual([]);
  expect(wrong, 'occupancy').toEqual([]);

  // One outcome for each allocation, and no allocation without a request.
  const allocations = await everyAllocation(client);
  expect(new Set(allocations.map(({ allocation_id }) => allocation_id))).toEqual(done.allocations);
  const outcomes = await db.query<{ allocation_id: string; released: number }>(
    `select allocation_id, count(*)::int as released from evidence where kind = 'allocation.released'
     group by allocation_id having count(*) <> 1`,
  );
  expect(outcomes, 'allocations that were released twice').toEqual([]);

  // Each prediction matches the evidence of the same request.
  const changes = await db.query<{ correlation_id: string; kind: string }>(
    `select distinct on (correlation_id) correlation_id, kind from evidence
     where kind like 'node.%' and data ? 'from' and correlation_id = any($1) order by correlation_id, xid, seq`,
    [done.predictions.map(({ correlation_id }) => correlation_id)],
  );
  const became = new Map(changes.map(({ correlation_id, kind }) => [correlation_id, kind.slice('node.'.length)]));
  const untrue = done.predictions.filter(
    ({ correlation_id, predicted }) => (became.get(correlation_id) ?? predicted) !== predicted,
  );
  expect(untrue, 'predictions that did not come true').toEqual([]);
  if (isWhole) expect(became.size).toBeGreaterThan(0);

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
      `${done.predictions.length} actions (${became.size} changed a status), ${looks} looks: nothing lost, left or in limbo`,
  );
  console.log(JSON.stringify(done.actions));
});
