/** Checks the output and the exit status of each kind of failure. */
import { createServer } from 'node:http';
import { beforeEach, describe, expect, test } from 'vitest';
import { errorCatalogue } from '../../contract/errors/errors.ts';
import type { Problem } from '../../contract/errors/problem.ts';
import { tlsServer } from '../../probe/testing/loopback-servers.ts';
import { selfSigned } from '../../probe/testing/self-signed.ts';
import { type CliOptions, runCli } from '../testing/run-cli.ts';
import { sampleIds, samplePool, sampleProblem } from '../testing/samples.ts';
import { ScriptedServer } from '../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (args: string[], options: CliOptions = {}) => runCli(args, { server: server.url, ...options });

describe('errors', () => {
  test('print a refusal with reason, remedy and correlation id: exit 4', async () => {
    server.refuse('allocation-create', { detail: 'no pool is named gpu' });
    const { code, stdout, stderr } = await slipway(['allocate', '--pool', 'gpu']);
    expect({ code, stdout }).toEqual({ code: 4, stdout: '' });
    expect(stderr.replace(/\S*slipway pools/, 'slipway pools')).toBe(
      [
        `✖ ${errorCatalogue.pool_not_found.title}`,
        '  no pool is named gpu',
        '  What to do: List the pools: slipway pools',
        `  pool_not_found · owner: request · correlation_id ${sampleIds.correlation_id}`,
        '',
      ].join('\n'),
    );
  });

  test('name each invalid field', async () => {
    server.refuse('allocation-create', {
      code: 'invalid_request',
      status: 400,
      errors: [{ path: '/pool', message: 'too long' }],
    });
    expect((await slipway(['allocate', '-p', 'x'])).stderr).toContain('  /pool: too long\n');
  });

  test('print the remedy of the catalogue if the CLI has none of its own', async () => {
    server.refuse('allocation-create', { code: 'pool_paused', detail: 'by ops' });
    const { stderr } = await slipway(['allocate', '-p', 'x']);
    expect(stderr).toContain(`What to do: ${errorCatalogue.pool_paused.remedy}`);
  });

  test('report an unreachable server: exit 3', async () => {
    await server.stop();
    const { code, stderr } = await slipway(['nodes']);
    expect(code).toBe(3);
    expect(stderr).toContain(`✖ No Slipway server answers at ${server.url}\n  connect ECONNREFUSED`);
    expect(stderr).toMatch(
      /What to do: .*npm start.*slipway\s+doctor\n {2}owner: transport · correlation_id [0-9a-f]{32}\n$/s,
    );
  });

  test('advise --ca for an untrusted certificate, and not to start a server: exit 3', async () => {
    const { port } = await tlsServer(selfSigned('127.0.0.1'), (_, response) => response.end('{}'));
    const url = `https://127.0.0.1:${port}`;
    const { code, stderr } = await slipway(['nodes'], { server: url });
    expect(code).toBe(3);
    expect(stderr).toContain(`✖ The certificate is not trusted: ${url}\n`);
    expect(stderr).toMatch(/What to do: .*--ca FILE/);
    expect(stderr).not.toContain('npm start');
  });

  test('report a server that is not Slipway: exit 3', async () => {
    const other = createServer((_, response) => response.end('<html>hello</html>')).listen(0, '127.0.0.1');
    const address = await new Promise<string>((resolve) =>
      other.on('listening', () => resolve(JSON.stringify(other.address()))),
    );
    const { code, stderr } = await slipway(['nodes'], { server: `http://127.0.0.1:${JSON.parse(address).port}` });
    other.close();
    expect(code).toBe(3);
    expect(stderr).toContain('something other than JSON');
  });

  /** Refuses the first calls, then answers. */
  const refuseFirst = (count: number, problem: Partial<Problem>) => {
    const body = sampleProblem(problem);
    let calls = 0;
    server.on('pool-list', () => {
      calls += 1;
      return calls <= count
        ? { status: body.status, body, type: 'application/problem+json' }
        : { body: { items: [samplePool()], next_cursor: null } };
    });
  };

  test('wait briefly for a server that is starting', async () => {
    refuseFirst(2, { code: 'not_ready', retry_after_seconds: 0.05 });
    expect(await slipway(['pools'])).toMatchObject({ code: 0, stderr: '' });
    expect(server.callsOf('pool-list')).toHaveLength(3);
  });

  test('print a notice about the wait for a busy server, except with --json', async () => {
    refuseFirst(1, { code: 'server_busy', retry_after_seconds: 0.6 });
    const stderr = `… ${errorCatalogue.server_busy.title}. Retrying in 1 s, 4 tries left.\n`;
    expect(await slipway(['pools'])).toMatchObject({ code: 0, stderr });
    refuseFirst(1, { code: 'server_busy', retry_after_seconds: 0.6 });
    expect(await slipway(['pools', '--json'])).toMatchObject({ code: 0, stderr: '' });
  });

  test('do not retry an internal error: exit 1', async () => {
    server.refuse('pool-list', { code: 'internal_error' });
    expect((await slipway(['pools'])).code).toBe(1);
    expect(server.callsOf('pool-list')).toHaveLength(1);
  });

  test('say where tokens come from when the token is unknown', async () => {
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
    [['apply', '-f', '/nonexistent/pool.yaml'], 'What to do: Name a file that exists'],
  ])('reject %j as a usage error: exit 2', async (args, message) => {
    const { code, stdout, stderr } = await slipway(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(server.calls).toEqual([]);
  });

  test('print a stack trace only with --debug', async () => {
    server.refuse('pool-list');
    expect((await slipway(['pools'])).stderr).not.toMatch(/^\s+at /m);
    expect((await slipway(['pools', '--debug'])).stderr).toMatch(/^\s+at /m);
  });

  test('print one JSON document on stderr with --json, and nothing on stdout', async () => {
    server.refuse('pool-list', { code: 'role_insufficient', status: 403 });
    const { stdout, stderr } = await slipway(['pools', '--json']);
    expect(stdout).toBe('');
    expect(JSON.parse(stderr).error).toMatchObject({ code: 'role_insufficient', exit_code: 4, status: 403 });
  });
});
