/**
 * Tests how a recovery treats targets that are not eligible: a dry run lists them, and a round
 * skips them with a reason. They count neither as failures nor as canaries.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { CorrelationId, NodeId, WorkflowId } from '../../base/ids.ts';
import type { OperationContext } from '../../engine/engine.ts';
import type { RecoveryPhase } from '../../lifecycle/actions/recovery.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { chooseTargets } from '../../store/operations/recoveries.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { OperationServices } from '../runtime/services.ts';
import { requestRecovery } from './recovery-request.ts';
import { type RecoveryOrder, recoveryRound } from './recovery-round.ts';

let fixture: RuleFixture;
let services: OperationServices;
let nodes: NodeId[];
/** Indexes of the nodes: two with an allocation, two without. */
const [used, alsoUsed, first, second] = [0, 1, 2, 3];
const caller = { actor: null, visibility: wholeFleet, correlation_id: 'c' as CorrelationId };
const filter = { pool: 'p' };
const request = (more: object = {}) =>
  requestRecovery(services, { action: 'retire', filter, reason: 'too old', ...more }, caller);

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  nodes = await fixture.addNodes({ pool: 'p', count: 4 });
  services = { ...fixture.services, drivers: new Map([['yard', simulatedDriver({ name: 'yard' })]]) };
  for (const [index, node_id] of nodes.entries())
    await fixture.db.query(
      `update nodes set status_since = status_since + make_interval(secs => $2) where node_id = $1`,
      [node_id, index],
    );
  for (const index of [used, alsoUsed])
    await fixture.db.query(
      `insert into allocations
         (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, labels, created_at)
       values ($1, 'p', $2, 'acme', 'active', $3, 'c', '{}', $3)`,
      [`alloc_${index}`, nodes[index], fixture.start],
    );
});
afterEach(() => fixture.close());

const inUse = 'An allocation uses it; release the allocation first.';

test('a dry run lists eligible targets, and the reasons for the others', async () => {
  expect(await request({ dry_run: true })).toEqual({
    matched: 4,
    eligible: 2,
    not_eligible: [{ why_not: inUse, count: 2, first: [nodes[used], nodes[alsoUsed]] }],
    first: [nodes[first], nodes[second]],
    workflow_id: null,
  });
  await fixture.db.query(`update allocations set status = 'released'`);
  expect(await request({ dry_run: true })).toMatchObject({ matched: 4, eligible: 4, not_eligible: [] });
});

test('a paused pool is not eligible for actions that launch machines', async () => {
  await fixture.declarePool('q', { driver: 'local', paused: true });
  await fixture.addNodes({ pool: 'q', count: 1 });
  expect(await request({ action: 'reimage', filter: { pool: 'q' }, dry_run: true })).toMatchObject({
    eligible: 0,
    not_eligible: [{ why_not: 'Its pool launches nothing while it is paused.' }],
  });
});

test('queues no operation if no target is eligible', async () => {
  await fixture.db.query(`update nodes set status = 'cleaning' where node_id = any($1)`, [nodes.slice(2)]);
  expect(await request()).toMatchObject({ matched: 2, eligible: 0, workflow_id: null });
});

test('skips ineligible targets with a reason and takes the next one as canary', async () => {
  const { workflow_id } = await request();
  const id = workflow_id as WorkflowId;
  await fixture.db.query(`update operations set status = 'running', epoch = '1' where workflow_id = $1`, [id]);
  const order: RecoveryOrder = {
    ...{ action: 'retire', filter, reason: 'too old' },
    ...{ canary: 1, per_minute: 6000, stop_after_failures: 1 },
  };
  await fixture.db.transaction((tx) => chooseTargets(tx, id, 'retire', filter, fixture.start));
  const context = { workflow_id: id, emit: async () => {} } as unknown as OperationContext;
  const round = (phase: RecoveryPhase) => recoveryRound(context, services, order, phase, undefined);
  const states = async () =>
    (await fixture.db.query<{ state: string }>('select state from recovery_targets order by ordinal')).map(
      ({ state }) => state,
    );
  await round('canary');
  expect(await states()).toEqual(['skipped', 'skipped', 'acting', 'waiting']);
  expect(await fixture.db.query(`select reason, acted_at from recovery_targets where state = 'skipped'`)).toEqual([
    { reason: inUse, acted_at: null },
    { reason: inUse, acted_at: null },
  ]);
  expect(
    await fixture.db.query(`select node_id, summary from evidence where kind = 'recovery.skipped' order by seq`),
  ).toEqual([used, alsoUsed].map((index) => ({ node_id: nodes[index], summary: `was skipped: ${inUse}` })));
  expect(await round('canary'), 'the round waits for the canary').toMatchObject({ over: false, stop: false });
  await fixture.clock.advance(5_000);
  await fixture.db.query(`update nodes set status = 'retired', status_since = $2 where node_id = $1`, [
    nodes[first],
    fixture.at(5),
  ]);
  expect(await round('canary')).toMatchObject({ over: true, stop: false });
  await round('rest');
  expect(await states()).toEqual(['skipped', 'skipped', 'recovered', 'acting']);
});
