/** The last message on stderr of an agent that ended names the problem, its cause and a remedy. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../../test/support/free-port.ts';
import type { ErrorCode } from '../../contract/errors/errors.ts';
import { pathFaults } from '../../contract/errors/path-faults.ts';
import { type AgentBench, agentBench, until } from '../testing/agent-process.ts';
import { type ProtocolServer, problem, protocolServer } from '../testing/protocol-server.ts';
import { endMessage, messageFor } from './end-message.ts';
import { exitCodes } from './exit.ts';

const entry = fileURLToPath(new URL('../main.ts', import.meta.url));

let server: ProtocolServer;
let bench: AgentBench;
let dir: string;
beforeEach(async () => {
  server = await protocolServer();
  bench = agentBench();
  dir = bench.dir();
});
afterEach(async () => {
  await bench.clear();
  await server.stop();
});

/** Runs an agent that ends by itself. */
const lived = (...args: string[]) =>
  new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    const options = { env: { PATH, NODE_COMPILE_CACHE }, timeout: 60_000 };
    execFile(process.execPath, [entry, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
const joins = (...more: string[]) => {
  const token = join(dir, 'join.token');
  writeFileSync(token, 'j\n');
  return ['--server', server.url, '--join-token-file', token, '--dir', dir, ...more];
};

test.each<[ErrorCode, string, string]>([
  ['join_token_invalid', 'does not take this join token: It was used up.', 'slipway join-token create POOL'],
  ['enrollment_invalid', 'does not take this enrolment token: It was used up.', 're-enroll'],
  ['pool_not_found', 'the pool that this join token is for is not there: It was used up.', 'slipway apply -f FILE'],
])('a registration that is refused with %s', async (code, what, remedy) => {
  server.override(({ path }) =>
    path === '/v1/agent/register' ? problem(code, { detail: 'It was used up.\n\u001b[2J' }) : null,
  );
  const { code: exit, stdout, stderr } = await lived(...joins());
  expect(exit).toBe(exitCodes.registration_refused);
  expect(stderr).toMatch(/^slipway agent: [^\n]+\n {2}What to do: [^\n]+\n$/);
  expect(stderr).toContain(what);
  expect(stderr.split('What to do: ')[1]).toContain(remedy);
  expect(stdout, 'the log says it too').toContain(`"code":"registration_refused"`);
});

test('a server that is not reached by the deadline', async () => {
  const server_url = `http://127.0.0.1:${await freePort()}`;
  const config = join(dir, 'agent.json');
  writeFileSync(config, JSON.stringify({ server_url, dir, join_token: 'j', deadline_at: '2020-01-01T00:00:00Z' }));
  const { code, stderr } = await lived('--config', config);
  expect(code).toBe(exitCodes.registration_deadline);
  expect(stderr).toContain(`slipway agent: ${server_url} was not reached in time: `);
  expect(stderr).toContain(
    `  What to do: ${pathFaults.tcp_refused.remedy} slipway agent doctor --server ${server_url}`,
  );
});

test('no token and no credential', async () => {
  const { code, stderr } = await lived('--server', server.url, '--dir', dir);
  expect(code).toBe(exitCodes.registration_refused);
  expect(stderr).toMatch(/^slipway agent: it has no token .+\n {2}What to do: Give it a token with --join-token/);
});

test('a directory that another agent uses, and one that cannot be written', async () => {
  const first = bench.start(dir, { server_url: server.url });
  await until(() => server.beats.length > 0, 'the first lives');
  const second = await lived(...joins());
  expect(second.code).toBe(3);
  expect(second.stderr).toBe(
    `slipway agent: another agent has ${dir}: it is process ${first.pid}\n  What to do: Stop that one, or give this one a directory of its own with --dir.\n`,
  );
  const below = join(dir, 'agent.json', 'below');
  const { code, stderr } = await lived(...joins('--dir', below));
  expect(code).toBe(2);
  expect(stderr).toMatch(/^slipway agent: it cannot keep anything in .+below: ENOTDIR.+\n {2}What to do: Let the user/);
  expect(stderr.split('\n'), 'no stack').toHaveLength(3);
});

test('reports an unknown flag in two lines', async () => {
  const { code, stderr } = await lived('--sever', server.url);
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /^slipway agent: invalid arguments: Unknown option '--sever'.*\n {2}What to do: See slipway agent --help/,
  );
  expect(stderr.split('\n')).toHaveLength(3);
});

test('a stopped or replaced agent prints nothing', async () => {
  const at = { server_url: server.url, dir };
  expect(endMessage({ code: 'stopped', reason: 'told to stop' }, at)).toBeNull();
  const failure = { code: 'instance_fenced', detail: 'it was replaced' };
  expect(endMessage({ code: 'instance_fenced', reason: 'fenced', failure }, at)).toBeNull();
});

test('every other end has a message, and none shows a secret', () => {
  const at = { server_url: server.url, dir };
  const silent = ['stopped', 'instance_fenced'];
  for (const code of Object.keys(exitCodes).filter((each) => !silent.includes(each))) {
    const said = messageFor(code, `refused swj_${'a1'.repeat(16)}\n    at main.ts:1`, at);
    expect(said, code).toMatch(/^slipway agent: [^\n]+\n {2}What to do: [^\n]+\n$/);
    expect(said, code).not.toContain('swj_');
  }
  const unknown = { code: 'constructor', detail: 'x' };
  expect(endMessage({ code: 'registration_refused', reason: 'r', failure: unknown }, at)).toContain(
    'refuses to register',
  );
});

test('redacts secrets and control characters, and stays short', () => {
  const at = { server_url: 'https://bob:hunter2secret@cp.example', dir: '/srv/\u001b[2Jagent\u202e' };
  const message = messageFor('credential_unknown', 'x'.repeat(1_000_000), at) ?? '';
  expect(message).not.toContain('hunter2secret');
  expect(message.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(message.length).toBeLessThan(5_000);
});
