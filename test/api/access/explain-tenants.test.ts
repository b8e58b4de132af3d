/**
 * An explanation joins many tables. It must show a tenant no data of another tenant, even on its
 * own machine.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Person } from '../../../src/api/http/callers.ts';
import { explanationHandlers } from '../../../src/api/routes/explanations.ts';
import type { ApiServices } from '../../../src/api/services.ts';
import { now, systemClock } from '../../../src/base/clock.ts';
import type { AllocationId, NodeId, NodeInstanceId } from '../../../src/base/ids.ts';
import type { Client } from '../../../src/contract/client.ts';
import { tenantOnly } from '../../../src/lifecycle/visibility.ts';
import { recordEvidence } from '../../../src/store/evidence/evidence.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import { until } from '../../support/until.ts';
import { type Tenant, type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
let db: Database;
beforeAll(async () => {
  fixture = await tenantFixture();
  db = openDatabase({ url: fixture.database_url });
});
afterAll(async () => {
  await db.close();
  await fixture.stop();
});

const readExplanation = (client: Client) =>
  client.call('node-explain', { params: { id: fixture.globex.machine.node_id } });

/** The ids of a row from a time when the machine of globex served this tenant. */
const idsOf = ({ allocation }: Pick<Tenant, 'allocation'>) => ({
  node_id: fixture.globex.machine.node_id as NodeId,
  node_instance_id: fixture.globex.machine.node_instance_id as NodeInstanceId,
  allocation_id: allocation.allocation_id as AllocationId,
});

it('cites only evidence of the tenant', async () => {
  const fact = { at: now(systemClock), layer: 'rule', kind: 'node.explained', data: {} } as const;
  await recordEvidence(db, [
    { ...fact, summary: 'about acme', ...idsOf(fixture.acme) },
    { ...fact, summary: 'about globex', ...idsOf(fixture.globex) },
  ]);
  const summaries = async (client: Client) => {
    const { because } = await readExplanation(client);
    return because.evidence.map(({ summary }) => summary).filter((summary) => summary.startsWith('about'));
  };
  await until('both rows in the view of operators', async () => (await summaries(fixture.client)).length === 2);
  expect(await summaries(fixture.globex.client)).toEqual(['about globex']);
});

it('shows a tenant no findings and no residue, because they may concern an earlier tenant', async () => {
  const { node_id, node_instance_id, allocation_id } = idsOf(fixture.acme);
  const ids = [node_id, node_instance_id, allocation_id];
  await fixture.tables.query(
    `insert into findings (finding_id, kind, what, subject, pool, node_id, node_instance_id, allocation_id, ours, theirs, first_seen_at, seen_at, opened_at, status)
     values ('find_acme', 'drift', 'row_differs', $1, 'outside', $1, $2, $3, '{}', '{}', now(), now(), now(), 'open')`,
    ids,
  );
  await fixture.tables.query(
    `insert into residue (residue_id, driver, pool, kind, resource, node_id, node_instance_id, allocation_id, why, reason, since)
     values ('res_acme', 'external', 'outside', 'machine', 'disk of acme', $1, $2, $3, 'force-release', 'no proof', now())`,
    ids,
  );
  const readFindings = async (client: Client) => {
    const { findings, residue } = await readExplanation(client);
    return { findings: findings.map(({ finding_id }) => finding_id), residue };
  };
  expect(await readFindings(fixture.client)).toEqual({ findings: ['find_acme'], residue: ['res_acme'] });
  expect(await readFindings(fixture.globex.client)).toEqual({ findings: [], residue: [] });
  expect(JSON.stringify(await readExplanation(fixture.globex.client))).not.toContain('acme');
});

it('does not name a holder that got the machine during the request', async () => {
  const { allocation_id, node_id } = idsOf(fixture.globex);
  const setTenant = (tenant: string) =>
    fixture.tables.query('update allocations set tenant = $1 where allocation_id = $2', [tenant, allocation_id]);
  let reads = 0;
  const racingDb: Database = {
    ...db,
    async query(text, values, options) {
      const rows = await db.query<never>(text, values, options);
      // The first read still finds the machine assigned to globex; the next read does not.
      if (reads++ === 0) await setTenant('acme');
      return rows;
    },
  };
  const person = (tenant: string): Person => ({
    ...{ token_id: 't', name: 'op', role: 'operator', visibility: tenantOnly(tenant) },
    ...{ expires_at: null, session_id: null },
  });
  const callBy = (tenant: string) => ({ params: { id: node_id }, person: () => person(tenant) }) as never;
  const services = { db: racingDb, clock: systemClock, drivers: new Map() } as unknown as ApiServices;
  try {
    expect((await explanationHandlers['node-explain'](callBy('globex'), services))?.holder).toBeNull();
    expect((await explanationHandlers['node-explain'](callBy('acme'), services))?.holder).toMatchObject({
      allocation_id,
    });
  } finally {
    await setTenant('globex');
  }
});
