/** `slipway status` and `slipway log-level`. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleProblem } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleServerProblem, sampleServerStatus } from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('shows a server without problems, with exit status 0', async () => {
  const status = sampleServerStatus();
  server.on('server-status', () => ({ body: status }));
  const { code, stdout } = await slipway('status');
  expect(code).toBe(0);
  expect(stdout).toContain('✔ No problems');
  expect(stdout).toMatch(/database +PostgreSQL 18\.1, primary, 12 MiB, schema 59\n/);
  expect(stdout).toMatch(/all connections +50 of 97 \(52 %\)\n/);
  expect(stdout).toMatch(/sweeps +1 sweep, none fails; the last ran just now\n/);
  expect(stdout).toMatch(/certificate +ends 2026-03-01 00:00:00Z/);
  expect(stdout).toMatch(/growth +3 MiB a day, 65 KiB for each machine, the disk is full in 40 days at this rate\n/);
  expect(stdout).not.toContain('last backup');
  // Wrapped to the width of the terminal.
  expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
    'licences 8 packages: 3 MIT, 2 Apache-2.0, 1 ISC, 1 BSD-3-Clause, 1 under other licences; all in /usr/lib/slipway/THIRD-PARTY-NOTICES',
  );
  expect(stdout).toMatch(/REPLICA +VERSION +STATE/);
  expect(JSON.parse((await slipway('status', '--json')).stdout)).toEqual(status);
});

test.each([
  [null, /^(?!.*growth)/s],
  [{ bytes_per_day: -5, bytes_per_node_day: -1, full_in_days: null }, /growth +none in the last week\n/],
  [{ bytes_per_day: 2048, bytes_per_node_day: null, full_in_days: null }, /growth +2 KiB a day\n/],
])('shows the growth %j', async (growth, shown) => {
  server.on('server-status', () => ({ body: sampleServerStatus({ growth }) }));
  expect((await slipway('status')).stdout).toMatch(shown);
});

test('names each problem with its owner and what to do, with exit status 1', async () => {
  const problem = sampleServerProblem();
  server.on('server-status', () => ({ body: sampleServerStatus({ problems: [problem] }) }));
  const { code, stdout } = await slipway('status');
  expect(code).toBe(1);
  expect(stdout).toContain('✖ The disk is nearly full');
  expect(stdout).toContain('owner: operator');
  expect(stdout).toContain('900 MB of 10.0 GB are free');
  expect(stdout).toContain('What to do: Enlarge the disk');
  expect((await slipway('status', '--json')).code).toBe(1);
});

const awayReadiness = {
  status: 'not ready',
  checks: { database: { ok: false, state: 'unavailable', detail: 'connection failed' } },
};

test('shows what the server can report without its database, with exit status 6', async () => {
  server.refuse('server-status', { code: 'store_unavailable', status: 503, retry_after_seconds: 5 });
  server.on('readiness-get', () => ({ status: 503, body: awayReadiness }));
  server.on('health-get', () => ({ body: { status: 'ok', version: '1.2.3' } }));
  const { code, stdout, stderr } = await slipway('status');
  expect({ code, stderr }).toEqual({ code: 6, stderr: '' });
  expect(stdout).toContain('✖ The server answers, but it is not ready');
  expect(stdout).toMatch(/version +1\.2\.3\n/);
  expect(stdout).toMatch(/database +unavailable: connection failed\n/);
  const json = await slipway('status', '--json');
  expect(json.code).toBe(6);
  expect(JSON.parse(json.stdout)).toEqual({ version: '1.2.3', readiness: awayReadiness });
});

test('reports a refusal by a ready server, and calls again after not_ready', async () => {
  server.refuse('server-status', { code: 'role_insufficient', status: 403 });
  expect((await slipway('status')).code).toBe(4);
  expect(server.callsOf('readiness-get')).toEqual([]);
  let tries = 0;
  const ready = { status: 'ready', checks: { database: { ok: true, state: 'ok', detail: null } } };
  server.on('readiness-get', () => ({ body: ready }));
  const overloaded = { code: 'not_ready', status: 503, retry_after_seconds: 0 };
  server.on('server-status', () =>
    ++tries === 1
      ? { status: 503, body: sampleProblem(overloaded), type: 'application/problem+json' }
      : { body: sampleServerStatus() },
  );
  expect((await slipway('status')).code).toBe(0);
});

test('exits with 3 if the server cannot be reached', async () => {
  await server.stop();
  expect((await slipway('status')).code).toBe(3);
});

test('shows the log level and changes it', async () => {
  const changed = { level: 'debug', usual: 'warn', until: '2030-01-01T00:10:00.000Z' };
  server.on('server-status', () => ({ body: sampleServerStatus() }));
  server.on('log-level-set', () => ({ body: changed }));
  expect((await slipway('log-level')).stdout).toBe('The log level is warn\n');
  const { code, stdout } = await slipway('log-level', 'debug', '--for', '10m');
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/^The log level is debug until 2030-01-01 .*, then warn\n$/),
  ]);
  expect(server.calls.at(-1)).toMatchObject({ name: 'log-level-set', body: { level: 'debug', for_seconds: 600 } });
  expect((await slipway('log-level', 'shout')).code).toBe(2);
});
