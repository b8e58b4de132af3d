/**
 * Scenarios about containers, for any real engine: many at once, one removed from outside, a
 * missing image, and an unreachable engine.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Progress } from '../../../src/contract/progress.ts';
import { labelNames } from '../../../src/drivers/docker/labels.ts';
import type { Driver, DriverOutcome } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import type { StartEngine, TestEngine } from '../../support/docker/engine.ts';
import { type Registry, startRegistry } from '../../support/docker/registry.ts';
import { freePort } from '../../support/free-port.ts';
import { silentListener } from '../../support/silent-listener.ts';
import { allocationOf, nodeOf, waitForAllocation } from './machines.ts';
import { type CounterTest, type ScenarioContext, scenario, withoutSweep } from './scenario.ts';
import { progressOf } from './slow-cluster.ts';

const login = { username: 'slipway', password: 'correct-horse-battery' };
const loginPair = Buffer.from(`${login.username}:${login.password}`).toString('base64');

export interface ContainerHost {
  engine: TestEngine;
  registry: Registry;
  directory: string;
  /** The server's arguments for the engine and the registry; complete once the tests begin. */
  args: string[];
}

/** An engine and a registry for the tests of one file. */
export function containerHost(start: StartEngine): ContainerHost {
  const host = { args: [] as string[] } as ContainerHost;
  beforeAll(async () => {
    host.registry = await startRegistry(login);
    host.engine = await start({ registry: host.registry.address });
    host.directory = mkdtempSync(join(tmpdir(), 'slipway-login-'));
    const auth_file = join(host.directory, 'config.json');
    writeFileSync(auth_file, JSON.stringify({ auths: { [host.registry.address]: { auth: loginPair } } }));
    host.args.push('--docker-host', host.engine.docker_host, '--docker-auth-file', auth_file);
  });
  afterAll(async () => {
    await host.engine?.close();
    await host.registry?.close();
    if (host.directory) rmSync(host.directory, { recursive: true });
  });
  return host;
}

const pass_seconds = 0.5;

/** The context of a scenario with containers. */
export interface ContainerContext extends ScenarioContext {
  host: ContainerHost;
}

const settings: Pick<Composition, 'environment'> = {
  environment: (built) => ({ ...built, drift: { ...built.drift, every_seconds: pass_seconds } }),
};

export const containerPool = (context: ContainerContext, pool: string, spec: object = {}, reuse = false) =>
  context.client.call('pool-put', {
    params: { pool },
    body: { driver: 'docker', reuse, spec: { image: context.host.engine.image, network: 'host', ...spec } },
  });

export const allocateContainer = async (context: ContainerContext, pool: string): Promise<string> =>
  (await context.client.call('allocation-create', { body: { pool } })).allocation.allocation_id;

const releaseAndWait = async (context: ContainerContext, id: string): Promise<Allocation> => {
  await context.client.call('allocation-release', { params: { id } });
  return waitForAllocation(context, id, 'released');
};

export const ownContainers = (context: ContainerContext) =>
  context.host.engine.containers({ [labelNames.installation_id]: context.db.installation_id });

export const waitForProgress = (
  context: ContainerContext,
  what: string,
  id: string,
  fits: (progress: Progress) => boolean,
) =>
  context.waitFor(what, async () => {
    const progress = await progressOf(context, id);
    return progress && fits(progress) ? progress : undefined;
  });

/** A step that failed for good has the same message until its operation ends, but no next try. */
const isWaitingForEngine = ({ status, message, retry_after_seconds = 0 }: Progress) =>
  status === 'running' && message.includes('is unavailable') && retry_after_seconds > 0;

/**
 * Allocates while the container engine is stopped, and releases while it is stopped again. Both
 * succeed once it runs.
 */
async function checkEngineAway(context: ContainerContext): Promise<void> {
  await context.host.engine.stop();
  const id = await allocateContainer(context, 'containers');
  await waitForProgress(context, 'progress to report the engine', id, isWaitingForEngine);
  await context.host.engine.start();
  await waitForAllocation(context, id, 'active', 'failed');
  expect(await allocationOf(context, id), 'the allocation after the engine returned').toMatchObject({
    status: 'active',
  });

  await context.host.engine.stop();
  await context.client.call('allocation-release', { params: { id } });
  await waitForProgress(context, 'release to report the engine', id, isWaitingForEngine);
  await context.host.engine.start();
  await waitForAllocation(context, id, 'released');
  expect(await ownContainers(context)).toEqual([]);
}

async function checkRemovedContainer(context: ContainerContext): Promise<void> {
  const id = await allocateContainer(context, 'containers');
  const { node_id } = await waitForAllocation(context, id, 'active');
  const [container] = await ownContainers(context);
  expect((await context.host.engine.call('DELETE', `/containers/${container?.Id}?force=true`)).status).toBe(204);
  const finding = await context.waitFor('the drift to be found', async () => {
    const { items } = await context.client.call('drift-list', { query: { status: 'open' } });
    return items.find((finding) => finding.subject === node_id);
  });
  expect(finding).toMatchObject({
    what: 'machine_absent',
    pool: 'containers',
    theirs: { state: 'absent', driver: 'docker' },
  });
  await releaseAndWait(context, id);
}

async function checkMissingImage(context: ContainerContext): Promise<void> {
  const image = `${context.host.registry.address}/nothing:1`;
  await containerPool(context, 'missing', { image });
  const failed = await waitForAllocation(context, await allocateContainer(context, 'missing'), 'failed');
  expect(failed.reason).toContain(`there is no image ${image}`);
  const progress = await waitForProgress(
    context,
    'the error to be reported',
    failed.allocation_id,
    ({ error }) => error !== undefined,
  );
  expect(progress.error).toMatchObject({ code: 'image_missing', owner_layer: 'provider' });
}

/**
 * Polls with one list call for all, because polling each would load the machine. Fails at once with
 * the reason if an allocation fails.
 */
const waitForAll = (
  context: ContainerContext,
  pool: string,
  status: Allocation['status'],
  many: number,
): Promise<Allocation[]> =>
  context.waitFor(`all of ${pool} to be ${status}`, async () => {
    const { items } = await context.client.call('allocation-list', { query: { pool, limit: many } });
    expect(items.filter((each) => each.status === 'failed').map(({ reason }) => reason)).toEqual([]);
    const matches = items.filter((each) => each.status === status);
    return matches.length === many ? matches : undefined;
  });

async function checkManyAtOnce(context: ContainerContext, many: number): Promise<void> {
  await containerPool(context, 'many');
  await Promise.all(Array.from({ length: many }, () => allocateContainer(context, 'many')));
  const active = await waitForAll(context, 'many', 'active', many);
  const runningContainers = (await ownContainers(context)).filter(({ State }) => State === 'running');
  expect(runningContainers).toHaveLength(many);
  const nodes = await Promise.all(active.map(({ node_id }) => nodeOf(context, node_id ?? '')));
  const instances = runningContainers.map(({ Labels }) => Labels[labelNames.node_instance_id]);
  expect(new Set(instances)).toEqual(new Set(nodes.map(({ node_instance_id }) => node_instance_id)));
  for (const { allocation_id: id } of active) await context.client.call('allocation-release', { params: { id } });
  await waitForAll(context, 'many', 'released', many);
  expect(await ownContainers(context)).toEqual([]);
  for (const { node_id } of nodes) expect(await nodeOf(context, node_id)).toMatchObject({ status: 'retired' });
  for (const { allocation_id } of active) expect(await context.db.countEvidence(allocation_id, 'proof.absent')).toBe(1);
}

/** A reused container is proven clean by its agent and serves the next allocation. */
async function checkReuse(context: ContainerContext): Promise<void> {
  await containerPool(context, 'again', {}, true);
  const first = await waitForAllocation(context, await allocateContainer(context, 'again'), 'active');
  await releaseAndWait(context, first.allocation_id);
  const [container, ...others] = await ownContainers(context);
  expect([container?.State, others]).toEqual(['running', []]);
  const next = await waitForAllocation(context, await allocateContainer(context, 'again'), 'active');
  expect(next.node_id).toBe(first.node_id);
  expect(await ownContainers(context)).toMatchObject([{ Id: container?.Id }]);
}

/** Searches evidence, operations and driver states for secrets. */
async function expectNoSecretStored(context: ContainerContext): Promise<void> {
  const storedRows = await context.db.query<{ row: string }>(
    `select e::text as row from evidence e
     union all select o::text from operations o
     union all select i.driver_state::text from instances i`,
  );
  expect(storedRows.length).toBeGreaterThan(0);
  for (const { row: text } of storedRows) {
    expect(text, 'an enrollment token').not.toMatch(/swe_[\w.-]{8}/);
    for (const secret of [login.password, loginPair]) expect(text, 'the login at the registry').not.toContain(secret);
  }
}

/** A server that treats an unreachable engine as a failure. */
const withoutRetries: Composition['drivers'] = (built) => {
  const docker = built.get('docker');
  if (!docker) throw new Error('there is no docker driver to break');
  const ensure: Driver['ensure'] = async (target): Promise<DriverOutcome> => {
    const answer = await docker.ensure(target);
    if (answer.outcome !== 'wait' || answer.error?.code !== 'engine_away') return answer;
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'engine_away',
      message: answer.message,
      retryable: false,
    };
  };
  return new Map([...built, ['docker', { ...docker, ensure }]]);
};

export const containerCounterTests: CounterTest[] = [
  {
    broken: 'an unreachable engine treated as a failure',
    composition: { drivers: withoutRetries },
    fails: /waited .* for progress to report the engine/,
  },
  { broken: 'no drift rule', composition: withoutSweep('drift'), fails: /waited .* for the drift to be found/ },
];

/**
 * Runs the checks of single containers, then of `many` at once. With `withReuse` it also checks the
 * reuse of containers, which does not depend on the engine.
 */
export const describeContainers = (
  host: ContainerHost,
  many: number,
  counterTests: CounterTest[],
  withReuse = true,
): void =>
  scenario({
    name: 'containers of an engine',
    args: host.args,
    settings,
    async story(base) {
      const context = { ...base, host };
      // A counter-test may have ended while the engine was stopped.
      await context.host.engine.start();
      await containerPool(context, 'containers');
      await checkRemovedContainer(context);
      await checkEngineAway(context);
      await checkMissingImage(context);
      await checkManyAtOnce(context, many);
      if (withReuse) await checkReuse(context);
      await expectNoSecretStored(context);
    },
    counterTests,
  });

/**
 * Moves the deadline to now once the operation reports this problem. Returns what the API and the
 * evidence say about it.
 */
async function checkDeadline(context: ContainerContext, pool: string, spec: object, problem: string) {
  await containerPool(context, pool, spec);
  const id = await allocateContainer(context, pool);
  await waitForProgress(context, 'the problem to be reported', id, ({ message }) => message.includes(problem));
  const { node_id } = await allocationOf(context, id);
  await context.db.query('update nodes set deadline_at = now() where node_id = $1', [node_id]);
  const { owner_layer, reason } = await waitForAllocation(context, id, 'failed');
  const { because } = await context.client.call('node-explain', { params: { id: node_id ?? '' } });
  const progress = await waitForProgress(context, 'the error to be reported', id, ({ error }) => error !== undefined);
  const [fact] = await context.db.query<{ data: { evidence: { step: string; code: string } } }>(
    `select data from evidence where node_id = $1 and kind = 'node.failed'`,
    [node_id],
  );
  return { owner_layer, reason, because, error: progress.error, verdict_evidence: fact?.data.evidence };
}

export const describeContainerDeadlines = (host: ContainerHost): void =>
  scenario({
    name: 'deadlines that pass before a container runs',
    args: host.args,
    async story(base) {
      const context = { ...base, host };
      await context.host.engine.start();
      const missingRegistry = `127.0.0.1:${await freePort()}/worker:1`;
      const silentSocket = join(host.directory, `${context.db.installation_id}.sock`);
      const engine = await silentListener({ path: silentSocket });
      const [unpulled, unanswered] = await Promise.all([
        checkDeadline(context, 'unpulled', { image: missingRegistry }, 'could not be pulled'),
        checkDeadline(context, 'unanswered', { docker_host: `unix://${silentSocket}` }, 'has not answered'),
      ]);
      expect(unpulled).toMatchObject({
        owner_layer: 'provider',
        because: { rule: 'provision-deadline', owner: 'provider' },
        error: { owner_layer: 'provider' },
        // On a busy machine the engine's last answer may come too late.
        verdict_evidence: {
          step: 'pull_image',
          code: expect.stringMatching(/^(image_pull_failed|not_answered)$/),
          owner_layer: 'provider',
        },
      });
      expect(unpulled.reason).toMatch(
        /at step pull_image \(owner provider\): .*(could not be pulled|has not answered)/,
      );
      expect(unpulled.because.verdict).toBe(unpulled.reason);
      expect(unanswered).toMatchObject({
        owner_layer: 'provider',
        because: { rule: 'provision-deadline', owner: 'provider' },
        error: { owner_layer: 'provider' },
        verdict_evidence: { step: 'pull_image', code: 'not_answered', owner_layer: 'provider' },
      });
      expect(unanswered.reason).toContain('the container engine has not answered yet');
      await engine.close();
    },
    counterTests: [],
  });
