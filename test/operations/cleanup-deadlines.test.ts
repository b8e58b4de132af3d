/**
 * Lets the deadline of a release and of a teardown pass. The verdict names the unfinished step, its
 * last error and the owner of the error.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { secondsLater } from '../../src/base/clock.ts';
import {
  type NodeId,
  type NodeInstanceId,
  newCorrelationId,
  newReplicaId,
  newWorkflowId,
  type WorkflowId,
} from '../../src/base/ids.ts';
import type { DriverOutcome } from '../../src/drivers/driver.ts';
import type { OperationContext } from '../../src/engine/engine.ts';
import type { RecordedStepError } from '../../src/lifecycle/findings/launch-blame.ts';
import { nodeRetirePlan } from '../../src/operations/release/node-retire.ts';
import type { OperationServices } from '../../src/operations/runtime/services.ts';
import { type DriveOptions, drive, type PlanStep } from '../../src/operations/runtime/stage.ts';
import { becomeExecutor, type Executor, finishOperation } from '../../src/store/operations/executions.ts';
import { type Publication, publishProgress } from '../../src/store/operations/publish-progress.ts';
import { queueOperation } from '../../src/store/operations/queue-operation.ts';
import { registerReplica } from '../../src/store/operations/replicas.ts';
import { endStep, startStep } from '../../src/store/operations/steps.ts';
import { cleanDeadline } from '../../src/sweeps/rules/clean-deadline.ts';
import { releaseDeadline } from '../../src/sweeps/rules/release-deadline.ts';
import { type RuleFixture, ruleFixture } from '../../src/sweeps/testing/rule-fixture.ts';
import { testDatabase } from '../support/database.ts';

let fixture: RuleFixture;
let executor: Executor;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  const address = { host: 'here', pid: 1, address: '', version: '1' };
  const lease = { started_at: fixture.start, lease_until: secondsLater(fixture.start, 10_000) };
  executor = await registerReplica(fixture.db, { ...address, ...lease, replica_id: newReplicaId(fixture.clock) });
});
afterEach(() => fixture.close());

const error: RecordedStepError = { code: 'refused', owner_layer: 'operator', message: 'the upstream refused' };

type Run = { workflow_id: WorkflowId; attempt: number };

/** Creates a node in cleaning whose deadline is due, and its queued operation. */
async function createTeardown(): Promise<{ node_id: NodeId; run: Run }> {
  await fixture.declarePool('pool');
  const wanted = { pool: 'pool', count: 1, status: 'cleaning', deadline_at: fixture.start } as const;
  const [node_id = '' as NodeId] = await fixture.addNodes(wanted);
  const run = { workflow_id: newWorkflowId(fixture.clock), attempt: 1 };
  const steps: PlanStep[] = nodeRetirePlan;
  const operation = { ...run, kind: 'node-retire', revision: 1, node_id, tenant: null, actor: null, params: {}, steps };
  await fixture.db.transaction((tx) =>
    queueOperation(tx, { ...operation, correlation_id: newCorrelationId() }, fixture.start),
  );
  await fixture.db.query('update nodes set workflow_id = $2 where node_id = $1', [node_id, run.workflow_id]);
  return { node_id, run };
}

/** Creates an allocation in releasing whose deadline is due, with the operation of a teardown. */
async function createRelease(): Promise<{ run: Run }> {
  const { node_id, run } = await createTeardown();
  await fixture.db.query(
    `insert into allocations (
       allocation_id, pool, node_id, tenant, status, status_since, deadline_at, budget_source, correlation_id,
       created_at, workflow_id)
     values ('alloc_1', 'pool', $1, 'acme', 'releasing', $2, $2, 'pool', 'c', $2, $3)`,
    [node_id, fixture.start, run.workflow_id],
  );
  return { run };
}

async function runUntilStop(run: Run, progress: { message: string; error?: RecordedStepError }): Promise<void> {
  const now = fixture.start;
  await becomeExecutor(fixture.db, run, executor, now);
  for (const { name } of nodeRetirePlan.slice(
    0,
    nodeRetirePlan.findIndex(({ name }) => name === 'stop'),
  )) {
    await startStep(fixture.db, run, name, 1, executor, now);
    await endStep(fixture.db, run, name, { status: 'done', tries: 1 }, executor, now);
  }
  await startStep(fixture.db, run, 'stop', 1, executor, now);
  await publishProgress(fixture.db, run, progress, executor, now);
}

async function decideTeardown(node_id: NodeId) {
  await cleanDeadline(fixture.services).run(fixture.at(20));
  const [node] = await fixture.readNodes([node_id]);
  const [fact] = await fixture.db.query<{ data: { evidence: object } }>(
    `select data from evidence where node_id = $1 and kind = 'node.quarantined'`,
    [node_id],
  );
  return { verdict: node?.verdict, evidence: fact?.data.evidence };
}

async function decideRelease() {
  await releaseDeadline(fixture.services).run(fixture.at(20));
  const [row] = await fixture.db.query(
    `select allocation.status, allocation.reason, allocation.owner_layer, evidence.data
     from allocations allocation
     join evidence on evidence.allocation_id = allocation.allocation_id
       and evidence.kind = 'allocation.release_failed'`,
  );
  return row;
}

test('an overdue teardown names the failing step, its error and the owner of the error', async () => {
  const { node_id, run } = await createTeardown();
  await runUntilStop(run, { message: 'refused', error });
  expect(await decideTeardown(node_id)).toMatchObject({
    verdict: {
      rule: 'clean-deadline',
      owner: 'operator',
      reason: expect.stringContaining(
        'its teardown did not end in time at step stop (owner operator): the upstream refused; no allocation owns it (',
      ),
    },
    evidence: { step: 'stop', code: 'refused', owner_layer: 'operator' },
  });
});

test('an overdue teardown without an error names the step, and keeps the owner of the rule', async () => {
  const { node_id, run } = await createTeardown();
  await runUntilStop(run, { message: 'the process still runs' });
  expect(await decideTeardown(node_id)).toMatchObject({
    verdict: {
      owner: 'provider',
      reason: expect.stringContaining('at step stop: no error; last reported: the process still runs'),
    },
    evidence: { step: 'stop', code: null },
  });
});

test('the control plane owns an overdue teardown that no replica started', async () => {
  const { node_id } = await createTeardown();
  expect(await decideTeardown(node_id)).toMatchObject({ verdict: { owner: 'control_plane' } });
});

test('an overdue release names the failing step, its error and the owner of the error', async () => {
  const { run } = await createRelease();
  await runUntilStop(run, { message: 'refused', error });
  expect(await decideRelease()).toMatchObject({
    status: 'release_failed',
    reason:
      'its release is overdue at step stop (owner operator): the upstream refused (waited 20 s, budget from pool)',
    owner_layer: 'operator',
    data: { evidence: { step: 'stop', code: 'refused', owner_layer: 'operator' } },
  });
});

test('an overdue release without an error is owned by the workflow', async () => {
  const { run } = await createRelease();
  await runUntilStop(run, { message: 'the process still runs' });
  expect(await decideRelease()).toMatchObject({
    reason: expect.stringContaining('at step stop: no error; last reported: the process still runs'),
    owner_layer: 'workflow',
  });
});

test('a release whose operation ended names the error of the operation', async () => {
  const { run } = await createRelease();
  await runUntilStop(run, { message: 'stopping' });
  const failure = { ...error, message: 'no executor', step: 'stop' };
  await finishOperation(fixture.db, run, { status: 'failed', error: failure }, executor, fixture.at(1));
  expect(await decideRelease()).toMatchObject({
    reason: 'its release ended without an outcome at step stop (owner operator): no executor',
    owner_layer: 'operator',
  });
});

/** Runs the step `stop` while the driver gives these answers, and decides after the last one. */
async function decideAfter(run: Run, answers: DriverOutcome[]) {
  const remaining = [...answers];
  let verdict: Awaited<ReturnType<typeof decideRelease>>;
  const context = {
    ...run,
    step: (step: string, work: (call: { try: number; step: string }) => unknown) => work({ try: 1, step }),
    emit: (progress: Publication) => publishProgress(fixture.db, run, progress, executor, fixture.start),
    async sleep() {
      if (remaining.length === 0) verdict = await decideRelease();
    },
  } as unknown as OperationContext;
  const services = { ...fixture.services, executor } as unknown as OperationServices;
  const subject: DriveOptions['subject'] = { node_instance_id: 'inst_1' as NodeInstanceId, ids: {} };
  const policy = { tries: 3, base_seconds: 1, max_seconds: 15 };
  const stop = async () => remaining.shift() ?? ({ outcome: 'done', message: 'stopped' } as const);
  await drive(context, services, 'stop:driver', stop, { policy, subject });
  return verdict;
}

const silent: DriverOutcome = {
  outcome: 'wait',
  retry_seconds: 1,
  message: 'docker has not answered yet',
  error: { code: 'not_answered', owner_layer: 'provider' },
};

test('an overdue release does not name an error that its step recovered from', async () => {
  const { run } = await createRelease();
  await runUntilStop(run, { message: 'stopping' });
  const stopping: DriverOutcome = { outcome: 'wait', retry_seconds: 1, message: 'the agent is stopping' };
  expect(await decideAfter(run, [silent, stopping])).toMatchObject({
    reason: expect.stringContaining('at step stop: no error; last reported: the agent is stopping'),
    owner_layer: 'workflow',
    data: { evidence: { code: null } },
  });
});

test('an overdue release names the error of the last answer', async () => {
  const { run } = await createRelease();
  await runUntilStop(run, { message: 'stopping' });
  expect(await decideAfter(run, [silent])).toMatchObject({
    owner_layer: 'provider',
    data: { evidence: { code: 'not_answered' } },
  });
});
