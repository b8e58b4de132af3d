/** Signals to a server with an embedded database: reload, stop, and those that it ignores. */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { findPostmaster, isProcessAlive } from '../../src/store/pg/embedded/postmaster.ts';
import { type SpawnedMain, spawnMain, spawnProgram } from '../support/server.ts';
import { until } from '../support/until.ts';

let directory: string;
let config: string;
let args: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-signals-'));
  // PostgreSQL runs as another user if the tests run as root.
  await chmod(directory, 0o755);
  config = join(directory, 'slipway.yaml');
  await writeFile(config, 'budgets: { provision_seconds: 111 }\n');
  args = ['--port', '0', '--data-dir', join(directory, 'data'), '--config', config, '--log-level', 'info'];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const postmasterPid = () => findPostmaster(join(directory, 'data', 'postgres'))?.pid;

async function readSettingsOf(server: SpawnedMain) {
  const token = (await readFile(join(directory, 'data', 'admin.token'), 'utf8')).trim();
  const { decides_by } = await createClient({ base_url: server.url, token, addresses: routes }).call(
    'settings-get',
    {},
  );
  return decides_by as { budgets: Record<string, number>; drift: Record<string, number> };
}

describe('SIGHUP', () => {
  let server: SpawnedMain;
  let pid: number | undefined;
  beforeEach(async () => {
    server = await spawnMain(args);
    pid = postmasterPid();
  });
  afterEach(() => server.end('SIGTERM'));

  const reload = async (content: string, logged: RegExp) => {
    await writeFile(config, content);
    const before = server.output().length;
    server.child.kill('SIGHUP');
    await until('the reload', () => logged.test(server.output().slice(before)));
    return server.output().slice(before);
  };

  it('reloads the settings file, and names what needs a restart', async () => {
    expect((await readSettingsOf(server)).budgets).toMatchObject({ provision_seconds: 111 });
    const text = await reload(
      'budgets: { provision_seconds: 222 }\ndrift: { every_seconds: 7 }\nlogs: { most_bytes_per_node: 2000000 }\n',
      /in use after a restart/,
    );
    expect(text).toContain('"changed":["budgets","drift"]');
    expect(text).toContain('"needs_restart":["logs"]');
    const { budgets, drift } = await readSettingsOf(server);
    expect(budgets).toMatchObject({ provision_seconds: 222 });
    expect(drift).toMatchObject({ every_seconds: 7 });
    expect(postmasterPid()).toBe(pid);
    // Standard output has only lines of the log. The text for people goes to standard error.
    for (const line of server.stdout().trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('message');
  });

  it('keeps the settings if the new file is invalid', async () => {
    const text = await reload('budgets: { provision_seconds: soon }\n', /cannot be used/);
    expect(text).toContain('/budgets/provision_seconds');
    expect((await readSettingsOf(server)).budgets).toMatchObject({ provision_seconds: 111 });
    expect(isProcessAlive(pid ?? 0)).toBe(true);
  });
});

it('reloads after the start if SIGHUP comes during it', async () => {
  const server = spawnProgram(args);
  await until('the database to start', postmasterPid);
  await writeFile(config, 'budgets: { provision_seconds: 333 }\n');
  server.child.kill('SIGHUP');
  await until('the reload', () => server.output().includes('"changed":["budgets"]'));
  await server.end('SIGTERM');
});

it.for(['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGXCPU'] as const)('stops its database at %s', async (signal) => {
  const server = await spawnMain(args);
  const pid = postmasterPid() ?? 0;
  expect(isProcessAlive(pid)).toBe(true);
  await server.end(signal);
  expect(isProcessAlive(pid)).toBe(false);
  expect(await server.ended).toBe(0);
});

it.for(['SIGHUP', 'SIGTERM'] as const)(
  'stops its database at SIGTERM, also after %s during the start',
  async (first) => {
    const server = spawnProgram(args);
    const pid = await until('the database to start', postmasterPid);
    server.child.kill(first);
    server.child.kill('SIGTERM');
    expect(await server.ended).toBe(0);
    expect(isProcessAlive(pid)).toBe(false);
    expect(server.output()).not.toContain('Slipway is ready');
  },
);

it('ignores SIGUSR1 and SIGUSR2', async () => {
  const server = await spawnMain(args);
  for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP'] as const) server.child.kill(signal);
  await until('the reload', () => server.output().includes('reloaded the settings file'));
  await server.end('SIGTERM');
  expect(await server.ended).toBe(0);
  expect(server.output()).not.toContain('Debugger');
});
