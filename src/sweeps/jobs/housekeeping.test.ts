/**
 * Housekeeping deletes by the times of the settings file, and rests between the batches of a
 * backlog.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { memoryKeyRing } from '../../../test/support/key-ring.ts';
import { secondsLater } from '../../base/clock.ts';
import { firstIdAt } from '../../base/ids.ts';
import { settingsOf } from '../../contract/server-file.ts';
import { createSealer } from '../../store/integrity/sealer.ts';
import { pageSize } from '../../store/retention/walks.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { housekeeping } from './housekeeping.ts';

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
  const sealer = createSealer({ db, key_ring: memoryKeyRing(), installation: { installation_id: 'test' } });
  const { retention } = settingsOf({ retention: { keep_seconds: { allocations: 2 * daySeconds } } });
  const sweep = housekeeping(
    {
      ...services,
      environment: { ...services.environment, retention },
      engine: { ...services.engine, collectFinished: async () => 0 },
      installation: { ...services.installation, maintainTaskKeys: async () => 0 },
    },
    sealer,
  );
  expect(await sweep.run(secondsLater(start, 1.5 * daySeconds))).toEqual({ decided: 0 });
  expect(await countAllocations()).toBe(pageSize + 1);
  const now = secondsLater(start, 2.5 * daySeconds);
  expect(await sweep.run(now)).toEqual({ decided: pageSize, next_in_seconds: 0 });
  expect(await countAllocations()).toBe(1);
  expect(await sweep.run(now)).toEqual({ decided: 1 });
  expect(await countAllocations()).toBe(0);
});
