import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { handle } from '../conformance.ts';
import type { DriverTarget } from '../driver.ts';
import { createLocalDriver } from './local-driver.ts';
import { isAlive, type LocalFixture, localFixture, plant, standInAgent, until } from './testing/local-fixture.ts';

let fixture: LocalFixture;
beforeEach(async () => {
  fixture = await localFixture();
});
afterEach(() => fixture.close());

const tagsOf = ({ installation_id, node_instance_id }: DriverTarget) => ({
  SLIPWAY_INSTALLATION_ID: installation_id,
  SLIPWAY_NODE_INSTANCE_ID: node_instance_id,
});

describe('the directory of the nodes', () => {
  it('is created by the first launch, private, and does not make a directory above it private', async () => {
    const outer = join(fixture.nodes_dir, 'slipway');
    const nodes_dir = join(outer, 'nodes', 'installation');
    const driver = createLocalDriver({ ...fixture.options, nodes_dir });
    const target = fixture.withSpec({ command: ['/bin/sleep', '1000'] });
    expect(await driver.list_owned?.(fixture.installation_id)).toEqual([]);
    expect(existsSync(outer)).toBe(false);
    await handle({ ...fixture, open: () => driver }, target).done('ensure');
    expect((await stat(outer)).mode & 0o777).toBe(0o711);
    expect((await stat(nodes_dir)).mode & 0o777).toBe(0o700);
    await handle({ ...fixture, open: () => driver }, target).done('destroy');
  });
});

describe('launch', () => {
  it('passes the configuration in a file that only its owner can read', async () => {
    const target = fixture.withSpec({
      setup: 'true',
      command: ['/bin/sleep', '1000'],
      env: { A: 'b' },
      clean: 'rm -f x',
    });
    await handle(fixture, target).done('ensure');
    const config = fixture.file(target, 'agent.json');
    expect((await stat(config)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(config, 'utf8'))).toEqual({
      server_url: 'http://127.0.0.1:1',
      allow_insecure_http: false,
      secret_env: [],
      ca: null,
      other_server_urls: [],
      otlp_endpoint: null,
      enrollment_token: 'enrolment-secret',
      deadline_at: '2100-01-01T00:00:00Z',
      node_id: target.node_id,
      node_instance_id: target.node_instance_id,
      name: 'node-1',
      correlation_id: target.correlation_id,
      workflow_id: target.workflow_id,
      dir: fixture.directory(target),
      work_dir: fixture.file(target, 'work'),
      workload_dirs: [fixture.file(target, 'tmp'), fixture.file(target, 'work')],
      dir_keeps: ['slipway.json', 'agent.json', 'agent.out', 'launch.json', 'tmp', 'work'],
      output_file: fixture.file(target, 'agent.out'),
      setup: 'true',
      command: ['/bin/sleep', '1000'],
      clean: 'rm -f x',
      env: { A: 'b' },
      boot_stages: [],
      requires: [{ name: 'shell', check: 'true' }],
    });
  });

  it("passes only PATH and LANG of the server's environment", async () => {
    process.env.SECRET_OF_THE_SERVER = 'hush';
    const target = fixture.withSpec({});
    await handle(fixture, target).done('ensure');
    delete process.env.SECRET_OF_THE_SERVER;
    const environ = await readFile(`/proc/${target.state.pid}/environ`, 'utf8');
    const names = environ
      .split('\0')
      .filter(Boolean)
      .map((entry) => entry.split('=')[0]);
    expect(names.sort()).toEqual(
      [
        'HOME',
        'LANG',
        'PATH',
        'SLIPWAY_INSTALLATION_ID',
        'SLIPWAY_NODE_ID',
        'SLIPWAY_NODE_INSTANCE_ID',
        'TMPDIR',
      ].sort(),
    );
    expect(environ).toContain(`HOME=${fixture.file(target, 'work')}\0`);
  });

  it('fails with owner provider if the agent command does not exist', async () => {
    const driver = createLocalDriver({
      nodes_dir: fixture.nodes_dir,
      agent_command: ['/no/such/agent'],
      host_id: 'host-a',
      clock: systemClock,
    });
    const target = fixture.withSpec({});
    expect(await driver.ensure(target)).toMatchObject({
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'agent_command_missing',
      retryable: false,
    });
    expect(await driver.ensure({ ...target, state: {} })).toMatchObject({ code: 'agent_command_missing' });
  });

  it('fails retryably with owner provider if it cannot create a directory', async () => {
    const driver = fixture.open();
    await rm(fixture.nodes_dir, { recursive: true, force: true });
    await writeFile(fixture.nodes_dir, 'a file where a directory should be');
    expect(await driver.ensure(fixture.withSpec({}))).toMatchObject({
      outcome: 'failed',
      owner_layer: 'provider',
      retryable: true,
    });
  });

  it('does not touch a directory with the marker of another installation', async () => {
    const target = fixture.withSpec({});
    await mkdir(fixture.directory(target), { recursive: true });
    await writeFile(fixture.file(target, 'slipway.json'), JSON.stringify({ ...target, installation_id: 'another' }));
    for (const call of ['ensure', 'destroy'] as const) {
      expect(await handle(fixture, target).ended(call)).toMatchObject({
        outcome: 'failed',
        code: 'directory_of_another',
      });
    }
    expect(await fixture.machines(target)).toBe(0);
    await stat(fixture.file(target, 'slipway.json'));
  });

  it.each(['../escape', 'a/b', '.', '', 'x'.repeat(200)])('refuses the unsafe instance id %j', async (id) => {
    const target = { ...fixture.withSpec({}), node_instance_id: id as DriverTarget['node_instance_id'] };
    await expect(fixture.open().ensure(target)).rejects.toThrow('plain name');
    await expect(fixture.open().destroy(target)).rejects.toThrow('plain name');
  });
});

describe('an agent that ends', () => {
  it('by giving up is not launched again, and the diagnosis contains its reason', async () => {
    const target = fixture.withSpec({ setup: 'echo no such licence; exit 7' });
    const machine = handle(fixture, target);
    await machine.done('ensure');
    // Wait for the exit file first: on a busy host, a process that has not started yet looks ended.
    await until(() => existsSync(fixture.file(target, 'agent.exit.json')), 'the agent wrote its exit file');
    await until(async () => (await fixture.machines(target)) === 0, 'agent gave up');
    expect(await machine.ended('ensure')).toMatchObject({
      outcome: 'failed',
      owner_layer: 'node',
      code: 'agent_exited',
    });
    const diagnosis = await fixture.open().diagnose(target);
    expect(diagnosis, JSON.stringify(diagnosis)).toMatchObject({
      certain: true,
      code: 'setup_failed',
      summary: 'setup exited with code 7: no such licence (the agent gave up: setup_failed)',
    });
    expect(diagnosis.attachments.find(({ name }) => name === 'agent.out')?.text).toContain('no such licence');
    expect(await fixture.machines(target)).toBe(0);
  });

  it('by crashing is not launched again, and its exit code is reported', async () => {
    const target = fixture.withSpec({});
    const crashing = await localFixture({ agent_command: ['/bin/sh', '-c', 'echo boom >&2; exit 9', 'agent'] });
    await handle(crashing, target).done('ensure');
    await until(async () => {
      const { state, detail } = await crashing.open().inspect(target);
      return state === 'exited' && detail !== null;
    }, 'its end was recorded');
    expect(await crashing.open().inspect(target)).toMatchObject({
      state: 'exited',
      detail: 'the agent process exited with code 9',
    });
    expect(await crashing.open().diagnose(target)).toMatchObject({ certain: true });
    const failed = await crashing.open().ensure(target);
    expect(failed).toMatchObject({ outcome: 'failed', owner_layer: 'node', code: 'agent_exited' });
    expect(failed.outcome === 'failed' && failed.message).toContain('boom');
    await crashing.close();
  });

  it('by SIGKILL is launched up to three times, after its remaining processes were killed', async () => {
    const target = fixture.withSpec({ command: ['/bin/sleep', '4242'] });
    const machine = handle(fixture, target);
    let survivors: number[] = [];
    for (const launch of [1, 2, 3]) {
      await machine.done('ensure');
      expect(await fixture.machines(target), `launch ${launch}`).toBe(1);
      for (const pid of survivors) expect(await isAlive(pid), `survivor at launch ${launch}`).toBe(false);
      await until(async () => (await fixture.pids(target)).length === 2, 'its command runs');
      process.kill(Number(target.state.pid), 'SIGKILL');
      await until(async () => (await fixture.machines(target)) === 0, 'killed');
      survivors = await fixture.pids(target);
      expect(survivors, 'the command outlives its agent').toHaveLength(1);
    }
    expect(await machine.ended('ensure')).toMatchObject({
      outcome: 'failed',
      owner_layer: 'node',
      code: 'agent_exited',
    });
    await machine.done('destroy');
    expect(await fixture.pids(target)).toEqual([]);
  });
});

describe('another host', () => {
  const elsewhere = () =>
    createLocalDriver({
      nodes_dir: fixture.nodes_dir,
      agent_command: standInAgent,
      host_id: 'host-b',
      clock: systemClock,
    });

  it('does not touch or prove anything about a node that another host launched', async () => {
    const target = fixture.withSpec({});
    await handle(fixture, target).done('ensure');
    const driver = elsewhere();
    for (const call of ['ensure', 'stop', 'clean', 'destroy', 'abort'] as const) {
      expect(await driver[call](target)).toMatchObject({
        code: 'wrong_host',
        owner_layer: 'provider',
        retryable: true,
      });
    }
    expect(await driver.prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ code: 'wrong_host' });
    expect(await driver.inspect(target)).toMatchObject({ state: 'unknown', present: true });
    expect((await driver.diagnose(target)).summary).toContain('host-a');
    expect(await fixture.machines(target)).toBe(1);
  });
});

describe('another directory on the same host', () => {
  it('proves no absence while the original directory exists', async () => {
    const target = fixture.withSpec({});
    await handle(fixture, target).done('ensure');
    await fixture.killMachine(target);
    const elsewhere = await localFixture();
    expect(await elsewhere.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({
      code: 'not_absent',
      message: expect.stringContaining(fixture.directory(target)),
    });
    await handle(fixture, target).done('destroy');
    expect(await elsewhere.open().prove(target, { kind: 'absent', nonce: 'n' })).toMatchObject({ outcome: 'done' });
    await elsewhere.close();
  });
});

describe('list_owned and diagnose', () => {
  it('lists a tagged process without a directory under the same instance', async () => {
    const target = fixture.withSpec({});
    const pid = plant(['/bin/sleep', '1000'], tagsOf(target));
    expect(await fixture.open().list_owned(fixture.installation_id)).toEqual([
      { resource: `pid:${pid}`, kind: 'process', node_id: null, node_instance_id: target.node_instance_id },
    ]);
    await handle(fixture, target).done('destroy');
    await until(async () => !(await isAlive(pid)), 'planted process ended');
  });

  it('lists a live machine once, by its directory', async () => {
    const target = fixture.withSpec({});
    await handle(fixture, target).done('ensure');
    await fixture.ready(target);
    const { node_id, node_instance_id } = target;
    expect(await fixture.open().list_owned(fixture.installation_id)).toEqual([
      { resource: fixture.directory(target), kind: 'directory', node_id, node_instance_id },
    ]);
  });

  it('lists a partly removed directory', async () => {
    const target = fixture.withSpec({});
    await handle(fixture, target).done('ensure');
    await fixture.killMachine(target);
    await rm(fixture.file(target, 'agent.json'));
    expect(await fixture.open().list_owned(fixture.installation_id)).toMatchObject([
      { kind: 'directory', resource: fixture.directory(target) },
    ]);
  });

  it('diagnoses with outputs and processes, but without secrets and files outside the directory', async () => {
    const outside = join(fixture.nodes_dir, '..', 'admin.token');
    await writeFile(outside, 'the-admin-token');
    const spooled =
      'mkdir -p ../.agent/spool && echo old >../.agent/spool/1.lines && echo new >../.agent/spool/2.lines';
    const target = fixture.withSpec({
      setup: `ln -s ${outside} ../stolen.log; mkfifo ../blocked.log; mkdir ../directory.log; echo hello; ${spooled}`,
      command: ['/bin/sleep', '77'],
    });
    await handle(fixture, target).done('ensure');
    await fixture.ready(target);
    const { summary, certain, attachments } = await fixture.open().diagnose(target);
    expect(certain).toBe(false);
    expect(summary).toContain(String(target.state.pid));
    expect(attachments.find(({ name }) => name === 'agent.out')?.text).toContain('hello');
    expect(attachments.find(({ name }) => name === 'node.log')?.text).toBe('new\n');
    expect(attachments.find(({ name }) => name === 'processes')?.text).toContain('/bin/sleep 77');
    const all = JSON.stringify(attachments);
    expect(all).not.toContain('the-admin-token');
    expect(all).not.toContain('enrolment-secret');
  });
});
