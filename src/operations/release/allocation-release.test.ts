/** Tests which machines a release keeps for the next tenant. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { type NodeId, newCorrelationId } from '../../base/ids.ts';
import type { OperationContext } from '../../engine/engine.ts';
import type * as Executions from '../../store/operations/executions.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { decideReuse } from './allocation-release.ts';

vi.mock(import('../../store/operations/executions.ts'), async (original) => {
  const runOnce = ((db, _workflow, _receipt, _executor, _now, work) =>
    db.transaction((tx) => work(tx, {} as never))) satisfies typeof Executions.runOnce;
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
