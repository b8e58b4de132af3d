/** Tests which machines a release keeps for the next tenant, and what its last step changes. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { type NodeId, newCorrelationId } from '../../base/ids.ts';
import type { OperationContext } from '../../engine/engine.ts';
import type * as Executions from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { readAllocationRow, readNodeRow, testFleet } from '../../store/testing/fleet.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { decideReuse, finish } from './allocation-release.ts';

/** The row of the release that `runOnce` passes to its work. */
const operation = vi.hoisted(() => ({}) as Partial<OperationRow>);

vi.mock(import('../../store/operations/executions.ts'), async (original) => {
  const runOnce = ((db, _workflow, _receipt, _executor, _now, work) =>
    db.transaction((tx) => work(tx, operation as OperationRow))) satisfies typeof Executions.runOnce;
  return { ...(await original()), runOnce };
});

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
});
afterEach(() => fixture.close());

const inspect = async () => ({ state: 'running', present: true, ready: true, detail: null });
const context = {
  workflow_id: 'wf_release',
  step: (_: string, work: () => unknown) => work(),
} as unknown as OperationContext;

async function isReused(): Promise<boolean> {
  const [node] = await fixture.readNodes(['node_p_1' as NodeId]);
  const driver = { name: 'scripted', launches: true, inspect };
  const subject = { node, node_instance_id: node?.node_instance_id, pool: { reuse: true }, driver, target: {} };
  return decideReuse(context, fixture.services as unknown as OperationServices, subject as unknown as Subject);
}

const addOperation = (kind: string, status: string) =>
  fixture.db.query(
    `insert into operations (workflow_id, kind, revision, node_id, correlation_id, status, created_at)
     values ('wf_other', $1, 1, 'node_p_1', $3, $2, now())`,
    [kind, status, newCorrelationId()],
  );

test('keeps a machine that has a fresh agent and no running teardown', async () => {
  await fixture.addNodes({ pool: 'p', count: 1, status: 'cleaning' });
  await addOperation('node-reimage', 'cancelled');
  expect(await isReused()).toBe(true);
});

test.each(['node-reimage', 'node-retire'])('does not keep a machine that a running %s tears down', async (kind) => {
  await fixture.addNodes({ pool: 'p', count: 1, status: 'cleaning' });
  await addOperation(kind, 'running');
  expect(await isReused()).toBe(false);
});

describe('the last step of a release whose machine is proven gone', () => {
  /** Runs the last step for a node that got this status after its release began. */
  async function finishWith(status: 'cleaning' | 'quarantined' | 'ready') {
    const fleet = await testFleet(fixture.db);
    const node = await fleet.node('ready');
    const { node_id, node_instance_id } = node;
    const { allocation_id } = await fleet.allocation('active', node);
    const reason = 'for a test';
    await fleet.moveAllocation({ allocation_id, to: 'releasing', by: 'release', reason });
    if (status !== 'ready') await fleet.move({ node_id, to: 'cleaning', by: 'release', reason });
    if (status === 'quarantined') await fleet.move({ node_id, to: 'quarantined', by: 'quarantine', reason });
    Object.assign(operation, { workflow_id: null, correlation_id: node.correlation_id, allocation_id });
    const services = { ...fixture.services, clock: fleet.clock } as unknown as OperationServices;
    const end = await finish(context, services, { node, node_instance_id } as Subject, false).catch(String);
    const statuses = async () => ({
      node: (await readNodeRow(fixture.db, node_id)).status,
      allocation: (await readAllocationRow(fixture.db, allocation_id)).status,
    });
    return { error: end, ...(await statuses()) };
  }

  test.each(['cleaning', 'quarantined'] as const)('retires a node that is %s', async (status) => {
    expect(await finishWith(status)).toEqual({ error: undefined, node: 'retired', allocation: 'released' });
  });

  test('fails and releases nothing if the node cannot be retired', async () => {
    expect(await finishWith('ready')).toEqual({
      error: expect.stringContaining('no_such_edge'),
      node: 'ready',
      allocation: 'releasing',
    });
  });
});
