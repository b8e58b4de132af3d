/** The command as a program meets it: what it prints where, and with which exit status. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type CliOptions, runCli } from './testing/run-cli.ts';
import {
  sampleAllocation,
  sampleEvidence,
  sampleIds,
  sampleLogLine,
  sampleNode,
  sampleOperation,
  samplePool,
} from './testing/samples.ts';
import { ScriptedServer } from './testing/scripted-server.ts';
import { sampleExplanation } from './testing/supervision-samples.ts';

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

describe('lists', () => {
  test('nodes are a table in full, without colours, when a program reads it', async () => {
    server.nodes.set('1', sampleNode({ name: 'local-1', zone: 'eu-1' }));
    server.nodes.set('2', sampleNode({ node_id: 'node_2', name: 'gone', status: 'retired' }));
    const { code, stdout, stderr } = await slipway(['nodes']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [head, row, ...rest] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^NODE +NAME +POOL +STATUS +FOR +SEEN +USE +ALLOCATION +ZONE$/);
    expect(row).toMatch(
      new RegExp(
        `^${sampleIds.node_id}  local-1  local  ready +\\d+d +\\d+d  occupied  ${sampleIds.allocation_id}  eu-1$`,
      ),
    );
    expect(rest).toEqual([]);
  });

  test('filters are handed to the server, and one status is asked for once', async () => {
    const { code, stdout } = await slipway(['nodes', '--pool', 'gpu', '--status', 'failed', '-q', 'web']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'No node matches.\n' });
    expect(server.callsOf('node-list').map(({ query }) => query)).toEqual([
      { limit: '500', pool: 'gpu', q: 'web', status: 'failed' },
    ]);
  });

  test('--json is one document, wherever the flag stands', async () => {
    server.allocations.set('1', sampleAllocation({ status: 'active' }));
    for (const args of [
      ['--json', 'allocations'],
      ['allocations', '--json'],
    ]) {
      const { stdout } = await slipway(args);
      expect(JSON.parse(stdout)).toEqual({ items: [sampleAllocation({ status: 'active' })], truncated: false });
    }
  });

  test('pages are joined up to the limit, and more is said', async () => {
    server.on('operation-list', ({ query }) => ({
      body: {
        items: [sampleOperation({ workflow_id: `op_${query.cursor ?? 'first'}` })],
        next_cursor: query.cursor ? `${query.cursor}x` : 'x',
      },
    }));
    const { stdout, stderr } = await slipway(['operations', '--limit', '3', '--json']);
    expect(JSON.parse(stdout).items.map((item: { workflow_id: string }) => item.workflow_id)).toEqual([
      'op_first',
      'op_x',
      'op_xx',
    ]);
    expect(stderr).toBe('');
    expect((await slipway(['operations', '--limit', '1'])).stderr).toContain('raise --limit');
  });

  test('an empty fleet says what to do', async () => {
    expect((await slipway(['nodes'])).stdout).toMatch(
      /^There are no nodes. Bring one up: .*allocate --pool local --wait\n$/,
    );
  });
});

describe('one thing in full', () => {
  test('a node with its verdict', async () => {
    const verdict = { rule: 'provision-deadline', reason: 'launched but never registered', at: '2026-01-01T12:00:00Z' };
    const verdictTold = { rule: verdict.rule, verdict: verdict.reason };
    server.nodes.set(
      sampleIds.node_id,
      sampleNode({ status: 'failed', fenced: true, fence_reason: 'failed', verdict }),
    );
    server.on('node-explain', () => ({
      body: sampleExplanation({ status: 'failed', because: { ...sampleExplanation().because, ...verdictTold } }),
    }));
    const { code, stdout } = await slipway(['node', sampleIds.node_id]);
    expect(code).toBe(0);
    expect(stdout).toContain(`${sampleIds.node_id}  local-1  failed for`);
    expect(stdout).toMatch(/because +launched but never registered {2}\[provision-deadline, \d+d ago\]/);
    expect(stdout).toMatch(/last seen +2026-01-01 12:00:00Z/);
    expect(stdout).toMatch(/What you can do\n.*\n.*slipway act \S+ extend-deadline/);
  });

  test('a node that was set aside: why, by whom, who uses it, and what was left behind', async () => {
    server.nodes.set(sampleIds.node_id, sampleNode({ status: 'quarantined', deadline_at: null }));
    const evidence = [
      sampleEvidence({ kind: 'node.quarantined', actor: { kind: 'token', id: 'tok_1', name: 'night shift' } }),
    ];
    const because = { ...sampleExplanation().because, rule: 'quarantine', verdict: 'it smells', evidence };
    const { allocation_id, name, status, status_since, reason, owner_layer, release_tries, retry_at } =
      sampleAllocation({ status: 'active' });
    const holder = { allocation_id, name, status, status_since, reason, owner_layer, release_tries, retry_at };
    const told = sampleExplanation({ status: 'quarantined', because, holder, residue: ['residue_1'] });
    server.on('node-explain', () => ({ body: told }));
    const { stdout } = await slipway(['node', sampleIds.node_id]);
    expect(stdout).toMatch(/because +it smells {2}\[quarantine, .*\]\n +by +night shift\n/);
    expect(stdout).toMatch(new RegExp(`Release what uses it: +\\S*slipway release ${allocation_id}\\n`));
    for (const way of ['verify', 'delete', 'adopt'])
      expect(stdout).toMatch(new RegExp(`slipway residue ${way} residue_1 --reason "…"`));
  });

  test('nodes name what failed of a release, and when it is tried again', async () => {
    const { allocation_id } = sampleIds;
    server.nodes.set(sampleIds.node_id, sampleNode({ status: 'cleaning', allocation_id }));
    server.allocations.set(
      allocation_id,
      sampleAllocation({
        status: 'release_failed',
        reason: 'release failed at step clean (owner node): clean exited with code 1',
        release_tries: 1,
        retry_at: '2026-01-01T12:00:00.000Z',
      }),
    );
    expect((await slipway(['nodes'])).stdout).toContain(
      'release failed at clean: clean exited with code 1; next try is due',
    );
  });

  test('an operation with its steps', async () => {
    server.operations.set(sampleIds.workflow_id, sampleOperation());
    const { stdout } = await slipway(['operation', sampleIds.workflow_id]);
    expect(stdout).toMatch(/◐ +1 Launching +running .*1 s/);
    expect(stdout).toMatch(/○ +2 Registering +pending +2 s/);
  });

  test('a timeline by any id, oldest first, with who did it', async () => {
    server.on('timeline-get', () => ({
      body: {
        items: [
          sampleEvidence({ cursor: '2-1', at: '2026-01-02T00:00:01.500Z', layer: 'rule', summary: 'second' }),
          sampleEvidence({ actor: { kind: 'token', id: 'tok_1', name: 'ops' }, summary: 'first' }),
        ],
        next_cursor: null,
      },
    }));
    const { stdout } = await slipway(['timeline', sampleIds.correlation_id, '--layer', 'rule']);
    expect(stdout).toBe(
      [
        '── 2026-01-01 (UTC) ──',
        '12:00:00.000  workflow  operation.started  first — by ops',
        '── 2026-01-02 (UTC) ──',
        '00:00:01.500  rule      operation.started  second',
        '',
      ].join('\n'),
    );
    await slipway(['timeline', sampleIds.node_id, '--since', '15m']);
    const [first, second] = server.callsOf('timeline-get');
    expect(first?.query).toMatchObject({ correlation_id: sampleIds.correlation_id, layer: 'rule', order: 'newest' });
    expect(second?.query).toMatchObject({ node_id: sampleIds.node_id });
    expect(Date.parse(second?.query.since ?? '')).toBeGreaterThan(Date.parse('2026-01-01'));
  });

  test('the audit, by what it is about, who, what and why not', async () => {
    const actor = { kind: 'token', id: 'tok_1', name: 'ops' };
    server.on('audit-list', () => ({
      body: { items: [sampleEvidence({ kind: 'action.refused', actor, summary: 'no' })], next_cursor: null },
    }));
    const asked = ['--target', 'node_1', '--actor', 'ops', '--action', 'retire', '--code', 'action_illegal'];
    expect((await slipway(['audit', ...asked])).stdout).toContain('action.refused  no — by ops\n');
    expect(server.callsOf('audit-list')[0]?.query).toMatchObject({
      target_id: 'node_1',
      actor: 'ops',
      action: 'retire',
      code: 'action_illegal',
    });
  });

  test('a timeline of an id that nobody knows is an error, one that the filters emptied is not', async () => {
    server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
    for (const more of [[], ['--json'], ['--layer', 'rule']]) {
      const { code, stdout, stderr } = await slipway(['timeline', 'nope', ...more]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain('Nothing is known about nope');
    }
    server.on('timeline-get', ({ query }) => ({
      body: { items: query.layer ? [] : [sampleEvidence()], next_cursor: null },
    }));
    expect(await slipway(['timeline', sampleIds.node_id, '--layer', 'rule'])).toMatchObject({
      code: 0,
      stdout: `There is evidence about ${sampleIds.node_id}, but none that matches.\n`,
    });
  });

  test('logs of the machine behind an allocation, harmless to the terminal', async () => {
    server.allocations.set(sampleIds.allocation_id, sampleAllocation());
    const registered = JSON.stringify({ level: 'warn', msg: 'registered', node_id: sampleIds.node_id, tries: 2 });
    const lines = [
      sampleLogLine({ line: 'red \x1b[31malert\x1b[2J' }),
      sampleLogLine({ seq: 2, stream: 'agent', line: registered }),
    ];
    server.on('node-logs', () => ({ body: { items: lines, next_cursor: null } }));
    const { stdout } = await slipway(['logs', sampleIds.allocation_id, '--tail', '5']);
    expect(stdout).toBe(
      `── 2026-01-01 (UTC) · ${sampleIds.node_instance_id} ──\n12:00:00.000 stdout  red alert\n12:00:00.000 agent   warn: registered  tries=2\n`,
    );
    expect(server.callsOf('node-logs')[0]).toMatchObject({
      params: { id: sampleIds.node_id },
      query: { tail: 'true', limit: '5' },
    });
  });
});

describe('apply', () => {
  const twoPools =
    'name: gpu\ndriver: local\nspec:\n  command: [sleep, "1"]\n---\n{"name": "cpu", "driver": "external"}\n';
  beforeEach(() => {
    server.refuse('pool-get');
    server.on('pool-put', ({ params }) => ({ body: samplePool({ name: params.pool ?? '' }) }));
  });

  test('declares each document of a file or of standard input', async () => {
    for (const run of [
      slipway(['apply', '-f', file('two.yaml', twoPools)]),
      slipway(['apply', '-f', '-'], { input: twoPools }),
    ]) {
      const { code, stdout } = await run;
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

  test('says what changed', async () => {
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
    ['empty', '# nothing\n', 'there is no pool document'],
  ])('a %s file is a usage error, and nothing is sent', async (name, text, message) => {
    const { code, stderr } = await slipway(['apply', '-f', file(`${name}.yaml`, text)]);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(server.calls).toEqual([]);
  });
});

describe('errors say what, why, what to do and the correlation id', () => {
  test('refused: exit 4', async () => {
    server.refuse('allocation-create', { detail: 'no pool is named gpu' });
    const { code, stdout, stderr } = await slipway(['allocate', '--pool', 'gpu']);
    expect({ code, stdout }).toEqual({ code: 4, stdout: '' });
    expect(stderr.replace(/\S*slipway pools/, 'slipway pools')).toBe(
      [
        '✖ There is no such pool',
        '  no pool is named gpu',
        '  What to do: See which there are: slipway pools',
        `  pool_not_found · owner: request · correlation_id ${sampleIds.correlation_id}`,
        '',
      ].join('\n'),
    );
  });

  test('each wrong field is named', async () => {
    server.refuse('allocation-create', {
      code: 'invalid_request',
      status: 400,
      errors: [{ path: '/pool', message: 'too long' }],
    });
    expect((await slipway(['allocate', '-p', 'x'])).stderr).toContain('  /pool: too long\n');
  });

  test('without a word of our own the catalogue says what to do', async () => {
    server.refuse('allocation-create', {
      code: 'pool_paused',
      status: 409,
      title: 'The pool is paused',
      detail: 'by ops',
    });
    expect((await slipway(['allocate', '-p', 'x'])).stderr).toContain('What to do: Unpause the pool, or use another.');
  });

  test('unreachable: exit 3', async () => {
    await server.stop();
    const { code, stderr } = await slipway(['nodes']);
    expect(code).toBe(3);
    expect(stderr).toContain(`✖ No Slipway server answers at ${server.url}\n  connect ECONNREFUSED`);
    expect(stderr).toMatch(/What to do: .*npm start.*\n {2}correlation_id [0-9a-f]{32}\n$/s);
  });

  test('another kind of server: exit 3, not a crash', async () => {
    const other = createServer((_, response) => response.end('<html>hello</html>')).listen(0, '127.0.0.1');
    const address = await new Promise<string>((resolve) =>
      other.on('listening', () => resolve(JSON.stringify(other.address()))),
    );
    const { code, stderr } = await slipway(['nodes'], { server: `http://127.0.0.1:${JSON.parse(address).port}` });
    other.close();
    expect(code).toBe(3);
    expect(stderr).toContain('something else than JSON');
  });

  test('a server that is starting is waited for a little', async () => {
    let asked = 0;
    server.on('pool-list', () => {
      asked += 1;
      const not_ready = { code: 'not_ready', status: 503, title: 'x', retry_after_seconds: 0.05, correlation_id: 'c' };
      return asked < 3
        ? {
            status: 503,
            body: { ...not_ready, owner_layer: 'control_plane', detail: 'starting' },
            type: 'application/problem+json',
          }
        : { body: { items: [samplePool()], next_cursor: null } };
    });
    expect(await slipway(['pools'])).toMatchObject({ code: 0, stderr: '' });
    expect(asked).toBe(3);
  });

  test('a defect of the server: exit 1', async () => {
    server.refuse('pool-list', { code: 'internal_error', status: 500, title: 'The server made a mistake' });
    expect((await slipway(['pools'])).code).toBe(1);
    expect(server.callsOf('pool-list')).toHaveLength(1);
  });

  test('a wrong token says where tokens come from', async () => {
    const { code, stderr } = await slipway(['pools'], { env: { SLIPWAY_TOKEN: 'wrong' } });
    expect(code).toBe(4);
    expect(stderr).toContain('--token-file or SLIPWAY_TOKEN');
  });

  test.each([
    [['frobnicate'], "unknown command 'frobnicate'"],
    [['node'], "missing required argument 'id'"],
    [['allocate'], "required option '-p, --pool <pool>' not specified"],
    [['nodes', '--status', 'sleeping'], "argument 'sleeping' is invalid"],
    [['allocate', '--pool', 'a', '--timeout', 'soon'], 'Expected a time like'],
    [['allocate', '--pool', 'a', '--label', 'novalue'], 'Expected key=value'],
    [['--server', 'ftp://x', 'nodes'], '--server is not an address'],
    [['watch', 'gpu'], 'names no node, allocation or operation'],
    [['--token-file', '/nonexistent/token', 'nodes'], 'token file /nonexistent/token cannot be read'],
  ])('%j is a usage error: exit 2', async (args, message) => {
    const { code, stdout, stderr } = await slipway(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(server.calls).toEqual([]);
  });

  test('no stack trace without --debug', async () => {
    server.refuse('pool-list');
    expect((await slipway(['pools'])).stderr).not.toMatch(/^\s+at /m);
    expect((await slipway(['pools', '--debug'])).stderr).toMatch(/^\s+at /m);
  });

  test('with --json the error is a document on stderr, and stdout stays empty', async () => {
    server.refuse('pool-list', { code: 'role_insufficient', status: 403 });
    const { stdout, stderr } = await slipway(['pools', '--json']);
    expect(stdout).toBe('');
    expect(JSON.parse(stderr).error).toMatchObject({ code: 'role_insufficient', exit_code: 4, status: 403 });
  });
});

describe('settings', () => {
  test('every flag is also an environment variable, and a refusal there counts as unset', async () => {
    const { code } = await slipway(['nodes'], { env: { SLIPWAY_NODES_POOL: 'gpu', SLIPWAY_NODES_STATUS: 'ready' } });
    expect(code).toBe(0);
    expect(server.callsOf('node-list')[0]?.query).toMatchObject({ pool: 'gpu', status: 'ready' });
    server.on('pool-list', () => ({ body: { items: [], next_cursor: null } }));
    expect((await slipway(['pools'], { env: { SLIPWAY_JSON: 'true' } })).stdout).toContain('"items"');
    expect((await slipway(['pools'], { env: { SLIPWAY_JSON: '0' } })).stdout).toContain('There are no pools');
  });

  test('one correlation id goes with every call', async () => {
    await slipway(['nodes']);
    const ids = new Set(server.calls.map(({ headers }) => headers['x-correlation-id']));
    expect([...ids]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)]);
  });

  test('what was typed to reach the server is in the commands to copy, a token never', async () => {
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
  };
  test('a new one alone goes to stdout', async () => {
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
  test('are listed by default and deleted by id', async () => {
    server.on('token-list', () => ({ body: { items: [token], next_cursor: null } }));
    server.on('token-delete', () => ({ status: 204, body: '' }));
    expect((await slipway(['tokens'])).stdout).toMatch(/^tok_1 +ci +operator +\(all\) +never/m);
    expect(await slipway(['tokens', 'delete', 'tok_1'])).toMatchObject({ code: 0, stdout: '✔ tok_1 is revoked\n' });
    expect(server.callsOf('token-delete')[0]?.params).toEqual({ id: 'tok_1' });
  });
  test('a join token is made for a pool', async () => {
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
});

describe('help', () => {
  let help: string;
  beforeAll(async () => {
    help = (await runCli(['--help'])).stdout;
  });
  test('names every command, the programs that are started elsewhere, and the exit status', () => {
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
  test('works without a server and ends with 0', async () => {
    for (const args of [['--help'], ['allocate', '--help'], ['help', 'logs'], ['--version']])
      expect((await runCli(args)).code).toBe(0);
  });
});
