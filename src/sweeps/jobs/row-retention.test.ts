/**
 * Rows are deleted by the times of the settings file, with rests between the batches of a backlog.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsLater } from '../../base/clock.ts';
import { firstIdAt } from '../../base/ids.ts';
import { settingsOf } from '../../contract/server-file.ts';
import { pageSize } from '../../store/retention/walks.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { rowRetention } from './row-retention.ts';

const daySeconds = 24 * 3600;
let fixture: RuleFixture;

beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('test');
});
afterAll(() => fixture.close());

const countAllocations = async () => (await fixture.db.query('select from allocations')).length;

test('deletes released allocations after the configured time, one page in a run', async () => {
  const { db, services, start } = fixture;
  await db.query(
    `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, created_at)
     select $1 || lpad(i::text, 11, '0'), 'test', 'acme', 'released', $2::timestamptz, 'c', $2::timestamptz
     from generate_series(1, $3::int) as i`,
    [firstIdAt('allocation', start), start, pageSize + 1],
  );
  const { retention } = settingsOf({ retention: { keep_seconds: { allocations: 2 * daySeconds } } });
  const sweep = rowRetention({ ...services, environment: { ...services.environment, retention } });
  expect(await sweep.run(secondsLater(start, 1.5 * daySeconds))).toEqual({ decided: 0 });
  expect(await countAllocations()).toBe(pageSize + 1);
  const now = secondsLater(start, 2.5 * daySeconds);
  expect(await sweep.run(now)).toEqual({ decided: pageSize, next_in_seconds: 0 });
  expect(await countAllocations()).toBe(1);
  expect(await sweep.run(now)).toEqual({ decided: 1 });
  expect(await countAllocations()).toBe(0);
});

test('a class that cannot be deleted does not stop the others, and the sweep reports it', async () => {
  const { db, services, start } = fixture;
  const refuse = `
    create function refuse() returns trigger language plpgsql
    as $$ begin raise exception 'refused'; end $$;
    create trigger refuse before delete on tasks for each row execute function refuse()`;
  await db.query(refuse);
  await db.query(
    `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, created_at)
     values ($1, 'test', 'acme', 'released', $2::timestamptz, 'c', $2::timestamptz)`,
    [firstIdAt('allocation', start), start],
  );
  await db.query(
    `insert into idempotency_keys (token_id, key, request_hash, created_at) values ('tok_1', 'k', 'x', $1)`,
    [start],
  );
  const [node_id] = await fixture.addNodes({ pool: 'test', count: 1, status: 'ready' });
  await db.query(
    `insert into tasks (task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, created_at, finished_at)
     select $1, node_id, node_instance_id, 'ping', '{}', 'succeeded', 30, $3::timestamptz, $3::timestamptz, $3::timestamptz
     from nodes
     where node_id = $2`,
    [firstIdAt('task', start), node_id, start],
  );
  const sweep = rowRetention(services);
  await expect(sweep.run(secondsLater(start, 100 * daySeconds))).rejects.toThrow('tasks: refused');
  expect(await countAllocations()).toBe(0);
  expect(await db.query('select from idempotency_keys')).toEqual([]);
});
