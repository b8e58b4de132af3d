/** The time budgets of a teardown, and who owns the problem if a teardown does not finish. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { OperationError } from '../../contract/operation.ts';
import { OperationCancelled, type OperationContext, StepFailed } from '../../engine/engine.ts';
import type * as Executions from '../../store/operations/executions.ts';
import { defaultEnvironment } from '../../store/transitions/transition-rules.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { agentProvesWithinSeconds } from './proof.ts';
import { quarantineAfterFailure, teardownBudgets } from './teardown.ts';

const row = vi.hoisted(() => ({ error: null as OperationError | null }));
vi.mock(import('../../store/operations/executions.ts'), async (original) => {
  const runOnce = ((db, _workflow, _receipt, _executor, _now, work) =>
    db.transaction((tx) => work(tx, row as never))) satisfies typeof Executions.runOnce;
  return { ...(await original()), runOnce };
});

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
});
afterEach(() => fixture.close());

const overdue = { code: 'operation_overdue', owner_layer: 'workflow', message: 'Cleaning up took longer than allowed' };
const failed = { step: 'clean', code: 'clean_failed', owner_layer: 'provider', message: 'it is stuck', tries: 3 };

test.for<[string, unknown, unknown, { owner: string; reason: RegExp }]>([
  [
    'the operator, after a cancellation',
    new OperationCancelled(),
    null,
    { owner: 'operator', reason: /it was cancelled$/ },
  ],
  [
    'the workflow, if the operation is overdue',
    new OperationCancelled(),
    overdue,
    { owner: 'workflow', reason: /longer than allowed$/ },
  ],
  [
    'the owner of the failed step',
    new StepFailed(failed),
    null,
    { owner: 'provider', reason: /step clean .*it is stuck$/ },
  ],
  [
    'the control plane, after an unexpected error',
    new Error('a bug'),
    null,
    { owner: 'control_plane', reason: /a bug$/ },
  ],
])('an unfinished teardown is owned by %s', async ([, error, operationError, { owner, reason }]) => {
  row.error = operationError as OperationError | null;
  const [node_id = '' as NodeId] = await fixture.addNodes({ pool: 'p', count: 1, status: 'cleaning' });
  await fixture.db.query(`update nodes set workflow_id = 'wf_1'`);
  const [node] = await fixture.readNodes([node_id]);
  const subject = { node, node_instance_id: node?.node_instance_id, ids: { node_id } } as Subject;
  const context = {
    workflow_id: 'wf_1',
    step: (_: string, work: () => unknown) => work(),
  } as unknown as OperationContext;
  await quarantineAfterFailure(
    context,
    fixture.services as unknown as OperationServices,
    subject,
    'the teardown',
    error,
  );
  const verdict = { rule: 'clean-error', owner, reason: expect.stringMatching(reason) };
  expect(await fixture.readNodes([node_id])).toMatchObject([{ status: 'quarantined', verdict }]);
});

test('takes budgets from the pool, then its runtime class, then the server', () => {
  const environment = {
    ...defaultEnvironment,
    budgets: { drain_seconds: 3, release_seconds: 3_000 },
    runtime_classes: { slow: { drain_seconds: 2, release_seconds: 2_000 } },
  };
  const budgets = (pool: object, reuse = true) =>
    teardownBudgets({ driver: { launches: true }, pool } as unknown as Subject, reuse, environment);
  expect(budgets({})).toEqual({ drain_seconds: 3, agent_clean_seconds: 3_000 });
  expect(budgets({ runtime_class: 'slow' })).toEqual({ drain_seconds: 2, agent_clean_seconds: 2_000 });
  expect(budgets({ runtime_class: 'slow', budgets: { drain_seconds: 1, release_seconds: 1_000 } })).toEqual({
    drain_seconds: 1,
    agent_clean_seconds: 1_000,
  });
  expect(budgets({ runtime_class: 'slow' }, false).agent_clean_seconds).toBe(agentProvesWithinSeconds);
});
