/**
 * Tests that each revision assigns a free machine in the recorded steps, and has the same result
 * after a crash at any step.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { secondsLater } from '../../base/clock.ts';
import { type CorrelationId, newReplicaId, type WorkflowId } from '../../base/ids.ts';
import { createVirtualEngine } from '../../engine/virtual-engine.ts';
import { type Faults, SimulatedCrash } from '../../engine/virtual-journal.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Installation } from '../../store/keys/installation.ts';
import { readOperation } from '../../store/operations/operations.ts';
import { registerReplica } from '../../store/operations/replicas.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import { requestAllocation } from '../requests.ts';
import { engineListener } from '../runtime/engine-listener.ts';
import type { OperationServices } from '../runtime/services.ts';
import { nodeProvisions } from './node-provision.ts';

let fixture: RuleFixture;
let services: OperationServices;

beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  await fixture.addNodes({ pool: 'p', count: 40 });
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  const lease = { started_at: fixture.start, lease_until: secondsLater(fixture.start, 10_000) };
  const executor = await registerReplica(fixture.db, { ...where, ...lease, replica_id: newReplicaId(fixture.clock) });
  const driver = simulatedDriver({ name: 'external', launches: false });
  const installation = { installation_id: 'inst' } as unknown as Installation;
  services = { ...fixture.services, executor, installation, drivers: new Map([[driver.name, driver]]) };
});
afterAll(() => fixture.close());

const caller = { actor: null, visibility: wholeFleet, correlation_id: 'c' as CorrelationId };
const activeAllocation = `select 1 from allocations where status = 'active' and workflow_id = $1`;

const kindsOf = async (workflow_id: WorkflowId) =>
  (
    await fixture.db.query<{ kind: string }>('select kind from evidence where workflow_id = $1 order by seq', [
      workflow_id,
    ])
  ).map(({ kind }) => kind);

async function start(revision: number, pool: string, faults: Faults = {}) {
  const workflow_id = (await requestAllocation(services, { pool }, caller)).workflow_id as WorkflowId;
  const listener = engineListener(() => services);
  let hasEnded = false;
  const ended: typeof listener.ended = async (...event) => {
    await listener.ended(...event);
    hasEnded = true;
  };
  const engine = createVirtualEngine({ clock: fixture.clock, faults, listener: { ...listener, ended } });
  for (const definition of nodeProvisions(services)) engine.register(definition);
  await engine.launch();
  await engine.start({ workflow_id, attempt: 1, kind: 'node-provision', revision, params: {} });
  return { workflow_id, engine, hasEnded: () => hasEnded };
}

/** Runs one operation with at most one crash. Returns the recorded steps and the outcome. */
async function provision(revision: number, crashAt?: { step: string; when: 'before' | 'after' }) {
  const steps: string[] = [];
  let hasCrashed = false;
  const crash = (when: 'before' | 'after') => (_: unknown, step: string) => {
    if (hasCrashed || crashAt?.step !== step || crashAt.when !== when) return;
    hasCrashed = true;
    throw new SimulatedCrash();
  };
  const before = (run: unknown, step: string) => {
    crash('before')(run, step);
    steps.push(step);
  };
  const { workflow_id, engine, hasEnded } = await start(revision, 'p', { before, after: crash('after') });
  const restartAfterCrash = () => {
    if (hasCrashed && !steps.includes('crash')) {
      steps.push('crash');
      engine.crash();
      void engine.launch();
    }
    return hasEnded();
  };
  await until('the operation to end', restartAfterCrash, { seconds: 20 });
  const operation = await readOperation(fixture.db, workflow_id, wholeFleet, fixture.start);
  return {
    steps,
    isServed: (await fixture.db.query(activeAllocation, [workflow_id])).length === 1,
    ended: [operation?.status, ...(operation?.steps ?? []).map(({ status }) => status)].join(' '),
    says: [operation?.progress.percent, operation?.progress.message].join(' '),
    kinds: (await kindsOf(workflow_id)).join(' '),
  };
}

const recordedSteps: Record<number, string[]> = {
  1: [
    ...['assign:begin', 'assign:wait', 'assign:end', 'standing'],
    ...['launch:skip', 'register:skip', 'start:skip', 'engine:emit', 'engine:ended'],
  ],
  2: ['assign:wait', 'engine:ended'],
};

test.each([1, 2])('revision %s assigns a free machine in the recorded steps', async (revision) => {
  const { steps, isServed, ended, says, kinds } = await provision(revision);
  expect(steps).toEqual(recordedSteps[revision]);
  expect({ isServed, ended, says }).toEqual({
    isServed: true,
    ended: 'succeeded done skipped skipped skipped',
    says: '100 Ready',
  });
  expect(kinds.replace('operation.progress ', '')).toBe(
    'allocation.requested operation.queued operation.started step.started allocation.provisioning allocation.active node.bound ' +
      'step.done step.skipped step.skipped step.skipped operation.succeeded',
  );
});

test.each(
  Object.entries(recordedSteps).flatMap(([revision, steps]) =>
    steps.flatMap((step) => (['before', 'after'] as const).map((when) => ({ revision: Number(revision), step, when }))),
  ),
)('revision $revision has the same result after a crash $when the step $step', async ({ revision, ...crashAt }) => {
  const { isServed, ended, says, kinds } = await provision(revision, crashAt);
  expect({ isServed, ended, says }).toEqual({
    isServed: true,
    ended: 'succeeded done skipped skipped skipped',
    says: '100 Ready',
  });
  if (revision === 2) expect(kinds.match(/step.started/g)).toHaveLength(1);
});

test('an operation that crashed while it waited gets the next machine without starting its stage again', async () => {
  await fixture.declarePool('empty');
  const { workflow_id, engine, hasEnded } = await start(2, 'empty');
  const kinds = () => kindsOf(workflow_id);
  await until('the operation to wait', async () => (await kinds()).includes('operation.progress'), { seconds: 20 });
  engine.crash();
  await engine.launch();
  await fixture.addNodes({ pool: 'empty', count: 1 });
  await until(
    'the operation to end',
    async () => {
      await engine.wake(workflow_id, 1);
      return hasEnded();
    },
    { seconds: 20 },
  );
  expect((await kinds()).join(' ')).toMatch(/step.started operation.progress .*operation.succeeded$/);
  expect((await kinds()).filter((kind) => kind === 'step.started')).toHaveLength(1);
});
