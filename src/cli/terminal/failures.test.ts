/** What goes wrong, as a program meets it: what is printed where, and with which exit status. */
import { createServer } from 'node:http';
import { beforeEach, describe, expect, test } from 'vitest';
import { errorCatalogue } from '../../contract/errors/errors.ts';
import { type CliOptions, runCli } from '../testing/run-cli.ts';
import { sampleIds, samplePool } from '../testing/samples.ts';
import { ScriptedServer } from '../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (args: string[], options: CliOptions = {}) => runCli(args, { server: server.url, ...options });

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
    expect(stderr).toMatch(
      /What to do: .*npm start.*doctor says which layer.*\n {2}owner: transport · correlation_id [0-9a-f]{32}\n$/s,
    );
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

  test('a server that is busy is waited for, and that is said', async () => {
    const { status, title } = errorCatalogue.server_busy;
    let asked = 0;
    server.on('pool-list', () => {
      asked += 1;
      const busy = { code: 'server_busy', status, title, retry_after_seconds: 0.6, correlation_id: 'c' };
      return asked === 1
        ? { status, body: { ...busy, owner_layer: 'control_plane' }, type: 'application/problem+json' }
        : { body: { items: [samplePool()], next_cursor: null } };
    });
    expect(await slipway(['pools'])).toMatchObject({
      code: 0,
      stderr: '… Server overloaded. Asking again in 1 s, 4 times at most.\n',
    });
    asked = 0;
    expect(await slipway(['pools', '--json']), 'programs are told nothing').toMatchObject({ code: 0, stderr: '' });
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
    [['--token-file', '/nonexistent/token', 'nodes'], 'token file /nonexistent/token cannot be read'],
    [['apply', '-f', '/nonexistent/pool.yaml'], 'What to do: Name a file that is there'],
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
