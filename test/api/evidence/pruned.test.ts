/** The error for a row that retention deleted says when, and which setting decided it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import { firstIdAt } from '../../../src/base/ids.ts';
import { defaultRetentionSeconds } from '../../../src/lifecycle/limits/retention-classes.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { createPruner } from '../../../src/store/retention/prune.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { type TenantFixture, tenantFixture } from '../support/tenants.ts';

const daySeconds = 24 * 3600;
const id = (kind: 'allocation' | 'node' | 'workflow', days: number) =>
  `${firstIdAt(kind, secondsLater(now(systemClock), -days * daySeconds))}00000000000`;
const allocation_id = id('allocation', 200);
const node_id = id('node', 200);

let fixture: TenantFixture;

beforeAll(async () => {
  fixture = await tenantFixture();
  const db = openDatabase({ url: fixture.database_url });
  try {
    const ended = secondsLater(now(systemClock), -100 * daySeconds);
    await db.query(
      `insert into nodes (node_id, pool, pool_generation, name, status, status_since, created_at)
       select $1, name, generation, 'gone', 'retired', $2, $2 from pools where name = 'outside'`,
      [node_id, ended],
    );
    await db.query(
      `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
       select $1, name, $2, 'acme', 'released', $3, 'c', $3 from pools where name = 'outside'`,
      [allocation_id, node_id, ended],
    );
    await createPruner(db).pass(defaultRetentionSeconds, now(systemClock));
  } finally {
    await db.close();
  }
});

afterAll(() => fixture.stop());

const retentionNotice =
  /and retention deleted it .*: (allocation|node)s are kept for 90 days after their end \(retention\.keep_seconds\.\1s\)/;
const readDetail = async (
  route: 'allocation-get' | 'allocation-certificate' | 'node-get' | 'node-explain' | 'operation-get',
  of: string,
  bearer: string,
) => {
  const answer = await callRoute(fixture.url, route, { params: { id: of } }, { bearer });
  expectProblem(answer, ['allocation_not_found', 'node_not_found', 'operation_not_found']);
  return (answer.body as { detail: string }).detail;
};

it('says when an allocation or a node was deleted, and by which retention', async () => {
  const { token } = fixture.acme;
  for (const route of ['allocation-get', 'allocation-certificate'] as const) {
    expect(await readDetail(route, allocation_id, fixture.token)).toMatch(retentionNotice);
    expect(await readDetail(route, allocation_id, token)).toMatch(retentionNotice);
  }
  for (const route of ['node-get', 'node-explain'] as const)
    expect(await readDetail(route, node_id, fixture.token)).toMatch(retentionNotice);
});

it('answers a tenant about a deleted row of another tenant as if the row had never existed', async () => {
  const { token } = fixture.globex;
  const unknownDetail = await readDetail('allocation-get', id('allocation', 201), token);
  expect(await readDetail('allocation-get', allocation_id, token)).toBe(unknownDetail);
  expect(await readDetail('node-get', node_id, token)).toBe(await readDetail('node-get', id('node', 201), token));
});

it('says how long operations are kept if the id is from before that time', async () => {
  expect(await readDetail('operation-get', id('workflow', 91), fixture.token)).toMatch(
    /kept for 90 days after their end/,
  );
  expect(await readDetail('operation-get', id('workflow', 89), fixture.token)).not.toMatch(/kept/);
});
