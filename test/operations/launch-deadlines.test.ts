/**
 * Lets the provision deadline pass in each step of each driver. The verdict names the step, the
 * step's last error and the owner. The first test fails for a step that `phaseOwners` does not
 * list.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { secondsLater, systemClock } from '../../src/base/clock.ts';
import { type NodeId, newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../src/base/ids.ts';
import { readSettings } from '../../src/base/settings/settings.ts';
import { createLog } from '../../src/base/telemetry/log.ts';
import type { OwnerLayer } from '../../src/contract/errors/problem.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import type { Driver } from '../../src/drivers/driver.ts';
import type { RecordedStepError } from '../../src/lifecycle/findings/launch-blame.ts';
import { bringUpPlan } from '../../src/operations/provision/provision-plan.ts';
import { openDrivers } from '../../src/server/open-drivers.ts';
import { becomeExecutor, type Executor } from '../../src/store/operations/executions.ts';
import { publishProgress } from '../../src/store/operations/publish-progress.ts';
import { queueOperation } from '../../src/store/operations/queue-operation.ts';
import { registerReplica } from '../../src/store/operations/replicas.ts';
import { endStep, reachPhase, startStep } from '../../src/store/operations/steps.ts';
import { provisionDeadline } from '../../src/sweeps/rules/provision-deadline.ts';
import type { SweepServices } from '../../src/sweeps/runner/services.ts';
import { type RuleFixture, ruleFixture } from '../../src/sweeps/testing/rule-fixture.ts';
import { testDatabase } from '../support/database.ts';

/** The layer that owns each phase of each driver while the phase has no error. */
const phaseOwners: Record<string, Record<string, OwnerLayer>> = {
  local: { launch: 'provider' },
  docker: { pull_image: 'provider', create: 'provider', start: 'provider' },
  ec2: { request: 'provider', boot: 'provider' },
  aks: {
    creating_cluster: 'provider',
    ensuring_resource_group: 'provider',
    arm_create_or_update: 'provider',
    ensuring_rbac: 'provider',
    completed: 'provider',
  },
  external: { enrol: 'node' },
};

const directory = mkdtempSync(join(tmpdir(), 'slipway-steps-'));
const drivers: Map<string, Driver> = openDrivers({
  settings: readSettings([], {}),
  log: createLog({ level: 'silent' }),
  data_dir: directory,
  db: { query: async () => [] } as never,
  clock: systemClock,
  installation: { installation_id: 'steps' },
  agent_bundle: '',
});

describe('the table of step owners', () => {
  test('lists every step of every driver with the owner from the driver’s plan', () => {
    const plannedOwners = [...drivers.values()].map((driver) => [
      driver.name,
      Object.fromEntries(driver.plan({}).map(({ phase, owner_layer }) => [phase, owner_layer])),
    ]);
    expect(Object.fromEntries(plannedOwners)).toEqual(phaseOwners);
  });

  test.each([...drivers.keys()])('has every phase that the code of driver %s names', (name) => {
    const root = fileURLToPath(new URL(`../../src/drivers/${name}/`, import.meta.url));
    const namedPhases = globSync('**/*.ts', { cwd: root })
      .filter((file) => !file.endsWith('.test.ts'))
      .flatMap((file) => [...readFileSync(`${root}${file}`, 'utf8').matchAll(/\bphase(?:: | = )'([a-z_]+)'/g)])
      .map(([, phase]) => phase);
    expect(namedPhases.filter((phase) => !Object.hasOwn(phaseOwners[name] ?? {}, phase ?? ''))).toEqual([]);
  });
});

let fixture: RuleFixture;
let services: SweepServices;
let executor: Executor;

beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
  services = { ...fixture.services, drivers };
  const address = { host: 'here', pid: 1, address: '', version: '1' };
  const lease = { started_at: fixture.start, lease_until: secondsLater(fixture.start, 10_000) };
  executor = await registerReplica(fixture.db, { ...address, ...lease, replica_id: newReplicaId(fixture.clock) });
});
afterAll(async () => {
  await fixture.close();
  rmSync(directory, { recursive: true });
});

type Run = { workflow_id: WorkflowId; attempt: number };

/** Creates a pool with a node in provisioning whose deadline is due, and its queued operation. */
async function createDueNode(pool: string, driver: string): Promise<{ node_id: NodeId; run: Run }> {
  const document = { driver } as PoolDocument;
  await fixture.declarePool(pool, document);
  const status = 'provisioning' as const;
  const [node_id = '' as NodeId] = await fixture.addNodes({ pool, count: 1, status, deadline_at: fixture.start });
  const run = { workflow_id: newWorkflowId(fixture.clock), attempt: 1 };
  const steps = bringUpPlan(document, services);
  const operation = {
    ...run,
    kind: 'node-provision',
    revision: 2,
    node_id,
    tenant: null,
    actor: null,
    params: {},
    steps,
  };
  await fixture.db.transaction((tx) =>
    queueOperation(tx, { ...operation, correlation_id: newCorrelationId() }, fixture.start),
  );
  await fixture.db.query('update nodes set workflow_id = $2 where node_id = $1', [node_id, run.workflow_id]);
  return { node_id, run };
}

async function runUntilPhase(
  run: Run,
  phase: string,
  progress: { message: string; error?: RecordedStepError | null },
): Promise<void> {
  const now = fixture.start;
  await becomeExecutor(fixture.db, run, executor, now);
  await startStep(fixture.db, run, 'launch', 1, executor, now);
  await reachPhase(fixture.db, run, 'launch', phase, executor, now);
  await publishProgress(fixture.db, run, progress, executor, now);
}

/** Runs the rule and returns its verdict, from the row and from the evidence. */
async function decideDeadline(node_id: NodeId) {
  await provisionDeadline(services).run(fixture.at(1));
  const [node] = await fixture.readNodes([node_id]);
  const [failure] = await fixture.db.query<{ data: { evidence: Record<string, unknown> } }>(
    `select data from evidence where node_id = $1 and kind = 'node.failed'`,
    [node_id],
  );
  return { status: node?.status, verdict: node?.verdict, evidence: failure?.data.evidence };
}

const launchSteps = Object.entries(phaseOwners).flatMap(([driver, steps]) => {
  // An agentless machine has left `provisioning` when it reaches the last phase.
  const agentless = drivers.get(driver)?.supervision === 'agentless';
  const names = Object.keys(steps);
  const stepsInProvisioning = agentless ? names.slice(0, -1) : names;
  return driver === 'external'
    ? []
    : stepsInProvisioning.map((step) => ({ driver, step, owner: steps[step] ?? 'provider' }));
});

/** The verdict names the launch step itself if the driver has only one phase. */
const reportedStep = (driver: string, step: string) =>
  (drivers.get(driver) as Driver).plan({}).length > 1 ? step : 'launch';

describe.each(launchSteps)(
  'a verdict on a deadline that passed in step $step of driver $driver',
  ({ driver, step, owner }) => {
    const pool = (kind: string) => `${driver}-${step.replaceAll('_', '-')}-${kind}`;
    const name = reportedStep(driver, step);

    test('names the step, its last error and the owner of the error', async () => {
      const { node_id, run } = await createDueNode(pool('error'), driver);
      const error = { code: 'sample_error', owner_layer: 'operator', message: 'the upstream refused' };
      await runUntilPhase(run, step, { message: 'working', error });
      expect(await decideDeadline(node_id)).toMatchObject({
        status: 'failed',
        verdict: {
          rule: 'provision-deadline',
          owner: 'operator',
          reason: expect.stringContaining(error.message),
        },
        evidence: { step: name, code: 'sample_error', owner_layer: 'operator' },
      });
    });

    test('names the step and its owner if there was no error', async () => {
      const { node_id, run } = await createDueNode(pool('slow'), driver);
      await runUntilPhase(run, step, { message: 'half of the image is pulled', error: null });
      expect(await decideDeadline(node_id)).toMatchObject({
        verdict: { owner, reason: expect.stringContaining('half of the image is pulled') },
        evidence: { step: name, code: null, owner_layer: owner },
      });
    });

    test('names the error of a failed try while the step waits for its retry', async () => {
      const { node_id, run } = await createDueNode(pool('tries'), driver);
      await runUntilPhase(run, step, { message: 'working' });
      const error = { code: 'refused_once', owner_layer: 'provider', message: 'try again later' };
      const retry = { status: 'retrying', tries: 1, error, retry_at: fixture.at(9) } as const;
      await endStep(fixture.db, run, 'launch', retry, executor, fixture.start);
      expect(await decideDeadline(node_id)).toMatchObject({
        evidence: { step: name, code: 'refused_once', owner_layer: 'provider' },
      });
    });
  },
);

test('the node owns the verdict on a launched machine that never registered', async () => {
  const { node_id, run } = await createDueNode('up', 'docker');
  await runUntilPhase(run, 'start', {
    message: 'runs',
    error: { code: 'engine_away', owner_layer: 'provider', message: 'away' },
  });
  await endStep(fixture.db, run, 'launch', { status: 'done', tries: 1 }, executor, fixture.start);
  expect(await decideDeadline(node_id)).toMatchObject({
    verdict: { owner: 'node' },
    evidence: { step: 'register', code: null, owner_layer: 'node' },
  });
});

test('the control plane owns the verdict if no replica started the operation', async () => {
  const { node_id } = await createDueNode('queued', 'docker');
  expect(await decideDeadline(node_id)).toMatchObject({
    verdict: { owner: 'control_plane' },
    evidence: { step: 'pull_image', code: null, owner_layer: 'control_plane' },
  });
});

test('the provider owns the verdict on a machine that waits for capacity, whatever layer its last error names', async () => {
  const { node_id, run } = await createDueNode('full', 'ec2');
  const error = { code: 'no_capacity', owner_layer: 'operator', message: 'no room' };
  await runUntilPhase(run, 'request', { message: 'no room', error });
  await fixture.db.query(`update nodes set waiting_for = 'capacity' where node_id = $1`, [node_id]);
  expect(await decideDeadline(node_id)).toMatchObject({
    verdict: { owner: 'provider' },
    evidence: { step: 'request', code: 'no_capacity', owner_layer: 'provider' },
  });
});

test('the node owns the verdict on an external machine that never registered', async () => {
  await fixture.declarePool('external', { driver: 'external' });
  const [node_id = '' as NodeId] = await fixture.addNodes({
    pool: 'external',
    count: 1,
    status: 'provisioning',
    deadline_at: fixture.start,
  });
  expect(await decideDeadline(node_id)).toMatchObject({ verdict: { owner: 'node' }, evidence: { step: 'register' } });
});
