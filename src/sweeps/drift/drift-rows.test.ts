/**
 * Rows written without a transition differ from their evidence. The finding is then repaired or
 * accepted, and nothing else changes.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newCorrelationId } from '../../base/ids.ts';
import { defaultDriftSettings } from '../../lifecycle/findings/findings.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { acceptFinding, repairFinding } from '../../operations/actions/findings.ts';
import { rebuildAllocations, rebuildNodes } from '../../store/history/projection.ts';
import type { Database } from '../../store/pg/database.ts';
import type { FindingRow } from '../../store/rows/findings.ts';
import type { Fleet } from '../../store/testing/fleet.ts';
import type { SweepServices } from '../runner/services.ts';
import { type DriftFixture, driftFixture } from '../testing/drift-fixture.ts';
import { drift } from './drift.ts';

const { every_seconds } = defaultDriftSettings;

let fixture: DriftFixture;
let db: Database;
let fleet: Fleet;
let services: SweepServices;

beforeEach(async () => {
  fixture = await driftFixture(await testDatabase());
  ({ db, fleet, services } = fixture);
});
afterEach(() => fixture.close());

const readFindings = () => db.query<FindingRow>('select * from findings order by finding_id');
const runPass = async (sweep = drift(services)) => {
  await fleet.clock.advance(every_seconds * 1000);
  await sweep.run(fleet.now());
};
const caller = {
  actor: { kind: 'token', id: 'tok_1', name: 'ann' } as const,
  visibility: wholeFleet,
  correlation_id: newCorrelationId(),
};
const request = { reason: 'we did not change the row' };

test('a row written by a transition matches its evidence', async () => {
  for (const status of ['ready', 'offline', 'failed', 'quarantined'] as const) await fleet.node(status);
  for (let pass = 0; pass < 3; pass++) await runPass();
  expect(await readFindings()).toEqual([]);
});

test('two replicas at the same moment count as one pass over a row', async () => {
  const { node_id } = await fleet.node('ready');
  await db.query(`update nodes set status = 'offline' where node_id = $1`, [node_id]);
  const [one, other] = [drift(services), drift(services)];
  await one.run(fleet.now());
  await other.run(fleet.now());
  expect(await readFindings()).toMatchObject([{ status: 'seen', passes: 1 }]);
  await runPass(one);
  expect(await readFindings()).toMatchObject([
    { status: 'open', subject: node_id, ours: { status: 'offline' }, theirs: { status: 'ready' } },
  ]);
});

test('a changed allocation is restored by a repair, or kept by an acceptance that updates its evidence', async () => {
  const { allocation_id } = await fleet.allocation('active');
  const changeTenant = async (tenant: string) => {
    await db.query('update allocations set tenant = $2 where allocation_id = $1', [allocation_id, tenant]);
    for (let pass = 0; pass < 2; pass++) await runPass();
    const finding = (await readFindings()).find(({ status }) => status === 'open');
    if (!finding) throw new Error('no finding is open');
    return finding;
  };
  const readRow = async () =>
    (await db.query('select * from allocations where allocation_id = $1', [allocation_id]))[0];
  const original = await readRow();
  const finding = await changeTenant('thief');
  expect(finding).toMatchObject({
    what: 'row_differs',
    subject: allocation_id,
    allocation_id,
    ours: { tenant: 'thief' },
  });
  const predicted = await repairFinding(services, finding.finding_id, { ...request, dry_run: true }, caller);
  expect(predicted.finding.status).toBe('open');
  await repairFinding(services, finding.finding_id, request, caller);
  expect(await readRow()).toEqual(original);

  await acceptFinding(services, (await changeTenant('moved')).finding_id, request, caller);
  expect(await readRow()).toMatchObject({ tenant: 'moved' });
  expect(await rebuildAllocations(db, [allocation_id])).toEqual([await readRow()]);
  for (let pass = 0; pass < 2; pass++) await runPass();
  expect((await readFindings()).map(({ status }) => status)).toEqual(['repaired', 'accepted']);
});

test('refuses to repair a row that matches its evidence again', async () => {
  const { node_id } = await fleet.node('ready');
  await db.query(`update nodes set status = 'offline' where node_id = $1`, [node_id]);
  for (let pass = 0; pass < 2; pass++) await runPass();
  await db.query(`update nodes set status = 'ready' where node_id = $1`, [node_id]);
  const [finding] = await readFindings();
  const repair = repairFinding(services, finding?.finding_id ?? '', request, caller);
  await expect(repair).rejects.toMatchObject({ code: 'action_illegal' });
  expect(await readFindings()).toMatchObject([{ status: 'open' }]);
  expect(await rebuildNodes(db, [node_id])).toMatchObject([{ status: 'ready' }]);
});
