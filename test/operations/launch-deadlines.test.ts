/**
 * A provision deadline that passes in each step of each driver: the verdict names the step, its
 * last error and the owner. A driver with a step that `owners` does not list fails here.
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
import { claimExecution, type Executor } from '../../src/store/operations/executions.ts';
import { publishProgress } from '../../src/store/operations/publish-progress.ts';
import { queueOperation } from '../../src/store/operations/queue-operation.ts';
import { registerReplica } from '../../src/store/operations/replicas.ts';
import { endStep, reachPhase, startStep } from '../../src/store/operations/steps.ts';
import { provisionDeadline } from '../../src/sweeps/rules/provision-deadline.ts';
import type { SweepServices } from '../../src/sweeps/runner/services.ts';
import { type RuleFixture, ruleFixture } from '../../src/sweeps/testing/rule-fixture.ts';
import { testDatabase } from '../support/database.ts';

/** The owner of each step of each driver, without an error. */
const owners: Record<string, Record<string, OwnerLayer>> = {
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

const stepsOf = (driver: Driver) => driver.plan({}).map(({ phase }) => phase);

describe('the table of steps', () => {
  test('lists every driver and each of its steps, with its owner', () => {
    const planned = [...drivers.values()].map((driver) => [
      driver.name,
      Object.fromEntries(driver.plan({}).map(({ phase, owner_layer }) => [phase, owner_layer])),
    ]);
    expect(Object.fromEntries(planned)).toEqual(owners);
  });

  test.each([...drivers.keys()])('%s reports only phases of its plan', (name) => {
    const root = fileURLToPath(new URL(`../../src/drivers/${name}/`, import.meta.url));
    const named = globSync('**/*.ts', { cwd: root })
      .filter((file) => !file.endsWith('.test.ts'))
      .flatMap((file) => [...readFileSync(`${root}${file}`, 'utf8').matchAll(/\bphase(?:: | = )'([a-z_]+)'/g)])
      .map(([, phase]) => phase);
    expect(named.filter((phase) => !Object.hasOwn(owners[name] ?? {}, phase ?? ''))).toEqual([]);
  });
});

let fixture: RuleFixture;
let services: SweepServices;
let executor: Executor;

beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
  const { environment } = fixture;
  // All nodes fall due in one fleet, which the brake would hold.
  const decide = { ...environment.decide, decideBrake: () => ({ allow: 'all' }) as const };
  services = { ...fixture.services, drivers, environment: { ...environment, decide } };
  const where = { host: 'here', pid: 1, address: '', version: '1' };
  const lease = { started_at: fixture.start, lease_until: secondsLater(fixture.start, 10_000) };
  executor = await registerReplica(fixture.db, { ...where, ...lease, replica_id: newReplicaId(fixture.clock) });
});
afterAll(async () => {
  await fixture.close();
  rmSync(directory, { recursive: true });
});

type Run = { workflow_id: WorkflowId; attempt: number };

/** A node of this driver in provisioning, with a deadline that is due. */
async function launching(name: string, driver: string): Promise<{ node_id: NodeId; run: Run }> {
  const document = { driver } as PoolDocument;
  await fixture.declarePool(name, document);
  const status = 'provisioning' as const;
  const [node_id = '' as NodeId] = await fixture.addNodes({ pool: name, count: 1, status, deadline_at: fixture.start });
  const run = { workflow_id: newWorkflowId(fixture.clock), attempt: 1 };
  const steps = bringUpPlan(document, services);
  const fresh = { ...run, kind: 'node-provision', revision: 2, node_id, tenant: null, actor: null, params: {}, steps };
  await fixture.db.transaction((tx) =>
    queueOperation(tx, { ...fresh, correlation_id: newCorrelationId() }, fixture.start),
  );
  await fixture.db.query('update nodes set workflow_id = $2 where node_id = $1', [node_id, run.workflow_id]);
  return { node_id, run };
}

async function at(
  run: Run,
  phase: string,
  progress: { message: string; error?: RecordedStepError | null },
): Promise<void> {
  const now = fixture.start;
  await claimExecution(fixture.db, run, executor, now);
  await startStep(fixture.db, run, 'launch', 1, executor, now);
  await reachPhase(fixture.db, run, 'launch', phase, executor, now);
  await publishProgress(fixture.db, run, progress, executor, now);
}

/** The verdict of the rule, from the row and from the evidence. */
async function verdictOn(node_id: NodeId) {
  await provisionDeadline(services).run(fixture.at(1));
  const [node] = await fixture.readNodes([node_id]);
  const [fact] = await fixture.db.query<{ data: { evidence: Record<string, unknown> } }>(
    `select data from evidence where node_id = $1 and kind = 'node.failed'`,
    [node_id],
  );
  return { status: node?.status, verdict: node?.verdict, rests_on: fact?.data.evidence };
}

const launchSteps = Object.entries(owners).flatMap(([driver, steps]) => {
  // The last phase of a machine without an agent is reached once it has left `provisioning`.
  const agentless = drivers.get(driver)?.supervision === 'observe';
  const names = Object.keys(steps);
  const reached = agentless ? names.slice(0, -1) : names;
  return driver === 'external' ? [] : reached.map((step) => ({ driver, step, owner: steps[step] ?? 'provider' }));
});

/** A driver with one phase appears as the step itself. */
const shownAs = (driver: string, step: string) => (stepsOf(drivers.get(driver) as Driver).length > 1 ? step : 'launch');

describe.each(launchSteps)('a deadline in step $step of $driver', ({ driver, step, owner }) => {
  const pool = (kind: string) => `${driver}-${step.replaceAll('_', '-')}-${kind}`;
  const name = shownAs(driver, step);

  test('names the step, its last error and that error’s owner', async () => {
    const { node_id, run } = await launching(pool('error'), driver);
    const error = { code: 'sample_error', owner_layer: 'operator', message: 'the upstream refused' };
    await at(run, step, { message: 'working', error });
    expect(await verdictOn(node_id)).toMatchObject({
      status: 'failed',
      verdict: {
        rule: 'provision-deadline',
        owner: 'operator',
        reason: expect.stringContaining(`timed out at step ${name} (owner operator): the upstream refused (waited`),
      },
      rests_on: { step: name, code: 'sample_error', owner_layer: 'operator' },
    });
  });

  test('names the step and its owner if there was no error', async () => {
    const { node_id, run } = await launching(pool('slow'), driver);
    await at(run, step, { message: 'half of it is there', error: null });
    expect(await verdictOn(node_id)).toMatchObject({
      verdict: { owner, reason: expect.stringContaining(`${name} (owner ${owner}): no error; last reported: half`) },
      rests_on: { step: name, code: null, owner_layer: owner },
    });
  });

  test('names the error of a try that is retried', async () => {
    const { node_id, run } = await launching(pool('tries'), driver);
    await at(run, step, { message: 'working' });
    const error = { code: 'refused_once', owner_layer: 'provider', message: 'come again' };
    const ended = { status: 'retrying', tries: 1, error, retry_at: fixture.at(9) } as const;
    await endStep(fixture.db, run, 'launch', ended, executor, fixture.start);
    expect(await verdictOn(node_id)).toMatchObject({
      rests_on: { step: name, code: 'refused_once', owner_layer: 'provider' },
    });
  });
});

test('the node owns a launched machine that never registers', async () => {
  const { node_id, run } = await launching('up', 'docker');
  await at(run, 'start', { message: 'runs', error: { code: 'engine_away', owner_layer: 'provider', message: 'away' } });
  await endStep(fixture.db, run, 'launch', { status: 'done', tries: 1 }, executor, fixture.start);
  expect(await verdictOn(node_id)).toMatchObject({
    verdict: { owner: 'node', reason: expect.stringMatching(/^provisioning timed out: launched but never registered/) },
    rests_on: { step: 'register', owner_layer: 'node' },
  });
});

test('the control plane owns an operation that no replica started', async () => {
  const { node_id } = await launching('queued', 'docker');
  expect(await verdictOn(node_id)).toMatchObject({
    verdict: { owner: 'control_plane', reason: expect.stringContaining('no replica has started the operation') },
    rests_on: { step: 'pull_image', owner_layer: 'control_plane' },
  });
});

test('the provider owns a machine that waits for capacity', async () => {
  const { node_id, run } = await launching('full', 'ec2');
  const error = { code: 'no_capacity', owner_layer: 'provider', message: 'no room' };
  await at(run, 'request', { message: 'no room', error });
  await fixture.db.query(`update nodes set waiting_for = 'capacity' where node_id = $1`, [node_id]);
  expect(await verdictOn(node_id)).toMatchObject({
    verdict: { owner: 'provider', reason: expect.stringContaining('the provider granted no capacity') },
    rests_on: { step: 'request', code: 'no_capacity', owner_layer: 'provider' },
  });
});

test('the node owns an external machine that does not register', async () => {
  await fixture.declarePool('brought', { driver: 'external' });
  const [node_id = '' as NodeId] = await fixture.addNodes({
    pool: 'brought',
    count: 1,
    status: 'provisioning',
    deadline_at: fixture.start,
  });
  expect(await verdictOn(node_id)).toMatchObject({ verdict: { owner: 'node' }, rests_on: { step: 'register' } });
});
