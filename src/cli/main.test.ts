/** Commands end to end against a scripted server: apply, settings, tokens and help. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type CliOptions, runCli } from './testing/run-cli.ts';
import { samplePool } from './testing/samples.ts';
import { ScriptedServer } from './testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (args: string[], options: CliOptions = {}) => runCli(args, { server: server.url, ...options });
const files = mkdtempSync(join(tmpdir(), 'slipway-cli-'));
const file = (name: string, text: string) => {
  writeFileSync(join(files, name), text);
  return join(files, name);
};

describe('apply', () => {
  const twoPools =
    'name: gpu\ndriver: local\nspec:\n  command: [sleep, "1"]\n---\n{"name": "cpu", "driver": "external"}\n';
  beforeEach(() => {
    server.refuse('pool-get');
    server.on('pool-put', ({ params }) => ({ body: samplePool({ name: params.pool ?? '' }) }));
  });

  test('declares each document of a file and of standard input', async () => {
    for (const result of [
      slipway(['apply', '-f', file('two.yaml', twoPools)]),
      slipway(['apply', '-f', '-'], { input: twoPools }),
    ]) {
      const { code, stdout } = await result;
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: '✔ pool gpu created (generation 1)\n✔ pool cpu created (generation 1)\n',
      });
    }
    const [first] = server.callsOf('pool-put');
    expect(first).toMatchObject({
      params: { pool: 'gpu' },
      body: { name: 'gpu', driver: 'local', spec: { command: ['sleep', '1'] } },
    });
    expect(first?.headers['idempotency-key']).toBeTruthy();
  });

  test('reports whether a pool changed', async () => {
    server.on('pool-get', () => ({ body: samplePool({ generation: 1 }) }));
    const yaml = file('one.yaml', 'name: gpu\ndriver: local\n');
    expect((await slipway(['apply', '-f', yaml])).stdout).toBe('✔ pool gpu unchanged (generation 1)\n');
    server.on('pool-put', () => ({ body: samplePool({ name: 'gpu', generation: 2 }) }));
    expect((await slipway(['apply', '-f', yaml])).stdout).toBe('✔ pool gpu changed (generation 2)\n');
  });

  test.each([
    ['broken', 'name: [gpu', 'is not valid YAML'],
    ['a list', '- name: gpu', 'is not a pool'],
    ['nameless', 'name: ok\ndriver: local\n---\ndriver: local', 'document 2 has no name'],
    ['empty', '# nothing\n', 'it holds no pool document'],
  ])('refuses a file that is %s and sends nothing', async (name, text, message) => {
    const { code, stderr } = await slipway(['apply', '-f', file(`${name}.yaml`, text)]);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(server.calls).toEqual([]);
  });
});

describe('settings', () => {
  test('reads every flag from its environment variable, and false values as unset', async () => {
    const { code } = await slipway(['nodes'], { env: { SLIPWAY_NODES_POOL: 'gpu', SLIPWAY_NODES_STATUS: 'ready' } });
    expect(code).toBe(0);
    expect(server.callsOf('node-list')[0]?.query).toMatchObject({ pool: 'gpu', status: 'ready' });
    server.on('pool-list', () => ({ body: { items: [], next_cursor: null } }));
    expect((await slipway(['pools'], { env: { SLIPWAY_JSON: 'true' } })).stdout).toContain('"items"');
    expect((await slipway(['pools'], { env: { SLIPWAY_JSON: '0' } })).stdout).toContain('There are no pools');
  });

  test('reads an empty variable as unset, and names a wrong flag before a missing one', async () => {
    const env = { SLIPWAY_NODES_STATUS: '', SLIPWAY_NODES_LIMIT: '', SLIPWAY_CA: '', SLIPWAY_TOKEN_FILE: '' };
    expect(await slipway(['nodes'], { env })).toMatchObject({ code: 0, stderr: '' });
    const { code, stderr } = await slipway(['tokens', 'create', '--nme', 'ci']);
    expect(code).toBe(2);
    expect(stderr).toContain("unknown option '--nme'\n(Did you mean --name?)");
  });

  test('names the data directory that has no token, as you typed it, with a remedy', async () => {
    const env = { SLIPWAY_TOKEN: '' };
    const { code, stderr } = await slipway(['nodes', '--data-dir', './no-server-here'], { env });
    expect(code).toBe(4);
    expect(stderr).toContain('No token was given, and there is no admin.token in ./no-server-here.');
    expect(stderr).toMatch(/What to do: Start the server with that data directory first.*SLIPWAY_TOKEN/);
  });

  test('sends one correlation id with every call', async () => {
    await slipway(['nodes']);
    const ids = new Set(server.calls.map(({ headers }) => headers['x-correlation-id']));
    expect([...ids]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)]);
  });

  test('repeats the typed connection flags in suggested commands, but never a token', async () => {
    const token = file('token', 'test-token\n');
    const args = ['nodes', '--server', server.url, '--token-file', token];
    const { stdout } = await runCli(args, { env: { SLIPWAY_TOKEN: '' } });
    expect(stdout).toContain(`allocate --pool local --wait --server ${server.url} --token-file ${token}`);
    expect((await runCli(['nodes', '--server', server.url, '--token', 'test-token'])).stdout).not.toContain(
      'test-token',
    );
  });
});

describe('tokens', () => {
  const token = {
    token_id: 'tok_1',
    name: 'ci',
    role: 'operator',
    tenant: null,
    created_at: '2026-01-01T12:00:00Z',
    expires_at: null,
    last_used_at: null,
  };
  test('prints only the new token to stdout', async () => {
    server.on('token-create', () => ({ status: 201, body: { ...token, token: 'secret' } }));
    const { code, stdout, stderr } = await slipway([
      'tokens',
      'create',
      '--name',
      'ci',
      '--role',
      'operator',
      '--ttl',
      '30d',
    ]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'secret\n' });
    expect(stderr).toContain('tok_1 ci: operator, all tenants, never expires');
    expect(server.callsOf('token-create')[0]?.body).toEqual({ name: 'ci', role: 'operator', ttl_seconds: 2_592_000 });
  });
  test('sends an empty tenant, so that the server refuses it', async () => {
    server.on('token-create', () => ({ status: 201, body: { ...token, token: 'secret' } }));
    await slipway(['tokens', 'create', '--name', 'ci', '--role', 'operator', '--tenant', '']);
    expect(server.callsOf('token-create')[0]?.body).toEqual({ name: 'ci', role: 'operator', tenant: '' });
  });
  test('lists tokens by default and deletes one by id', async () => {
    server.on('token-list', () => ({ body: { items: [token], next_cursor: null } }));
    server.on('token-delete', () => ({ status: 204, body: '' }));
    expect((await slipway(['tokens'])).stdout).toMatch(/^tok_1 +ci +operator +\(all\) +never +never/m);
    expect(await slipway(['tokens', 'delete', 'tok_1'])).toMatchObject({
      code: 0,
      stdout: '✔ tok_1 ci is revoked and refused from now on\n',
    });
    expect(server.callsOf('token-delete')[0]?.params).toEqual({ id: 'tok_1' });
  });
  test('lists console sessions and ends one by id', async () => {
    const session = {
      session_id: 'sess_1',
      token_id: 'tok_1',
      name: 'ci',
      role: 'operator',
      tenant: null,
      created_at: token.created_at,
      last_used_at: token.created_at,
      expires_at: token.created_at,
      idle_expires_at: token.created_at,
      address: '192.0.2.7',
      user_agent: 'Browser \u001b[31m/1',
      current: false,
    };
    server.on('session-list', () => ({ body: { items: [session], next_cursor: null } }));
    server.on('session-revoke', () => ({ status: 204, body: '' }));
    const { stdout } = await slipway(['sessions']);
    expect(stdout).toMatch(/^sess_1 +ci +operator +192\.0\.2\.7/m);
    expect(stdout).not.toContain('\u001b');
    expect(await slipway(['sessions', 'revoke', 'sess_1'])).toMatchObject({ code: 0, stdout: '✔ sess_1 has ended\n' });
    expect(server.callsOf('session-revoke')[0]?.params).toEqual({ id: 'sess_1' });
  });
  test('warns about the machines of a relay whose token is revoked', async () => {
    const relay = { ...token, name: 'rack-7', role: 'relay', pool: 'metal' };
    server.on('token-list', () => ({ body: { items: [relay], next_cursor: null } }));
    server.on('token-delete', () => ({ status: 204, body: '' }));
    const { stdout } = await slipway(['tokens', 'revoke', 'tok_1']);
    expect(stdout).toMatch(/tok_1 rack-7 is revoked.*\n.*machines behind it go offline.*--role relay --pool metal/);
  });
  test('creates a join token for a pool', async () => {
    const reply = {
      token_id: 'tok_2',
      pool: 'fleet',
      expires_at: null,
      max_uses: 3,
      uses: 0,
      created_at: token.created_at,
      token: 'join',
    };
    server.on('join-token-create', () => ({ status: 201, body: reply }));
    const { stdout, stderr } = await slipway(['join-token', 'create', 'fleet', '--max-uses', '3']);
    expect(stdout).toBe('join\n');
    expect(stderr).toContain('for pool fleet: at most 3 machines');
  });
  test('lists the join tokens of a pool, and revokes one', async () => {
    const item = {
      token_id: 'join_1',
      pool: 'fleet',
      expires_at: null,
      max_uses: 3,
      uses: 2,
      created_at: token.created_at,
    };
    server.on('join-token-list', () => ({ body: { items: [item], next_cursor: null } }));
    server.on('join-token-delete', () => ({ status: 204, body: '' }));
    const { stdout } = await slipway(['join-token', 'list', 'fleet']);
    expect(stdout).toMatch(/TOKEN +JOINED +EXPIRES.*\njoin_1 +2 of 3 +never/);
    expect((await slipway(['join-token', 'revoke', 'fleet', 'join_1'])).stdout).toContain('join_1 is revoked');
    expect(server.callsOf('join-token-delete')[0]?.params).toEqual({ pool: 'fleet', id: 'join_1' });
  });
});

describe('help', () => {
  let help: string;
  beforeAll(async () => {
    help = (await runCli(['--help'])).stdout;
  });
  test('names commands, programs and each exit status', () => {
    for (const name of [
      'allocate',
      'release',
      'watch',
      'nodes',
      'logs',
      'tokens',
      'apply',
      'serve',
      'agent',
      'completion',
    ])
      expect(help).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
    for (const code of [0, 1, 2, 3, 4, 5, 130]) expect(help).toMatch(new RegExp(`^  ${code} +[-\\w]`, 'm'));
    expect(help).toContain('every user of this host can read it');
  });
  test('prints help and the version without a server: exit 0', async () => {
    for (const args of [['--help'], ['allocate', '--help'], ['help', 'logs'], ['--version']])
      expect((await runCli(args)).code).toBe(0);
  });
});
