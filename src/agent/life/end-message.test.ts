/** Tests that an agent's last message on stderr names the problem, its cause and a remedy. */
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
const runToEnd = (...args: string[]) =>
  new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    const options = { env: { PATH, NODE_COMPILE_CACHE }, timeout: 60_000 };
    execFile(process.execPath, [entry, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
const joinArguments = (...more: string[]) => {
  const token = join(dir, 'join.token');
  writeFileSync(token, 'j\n');
  return ['--server', server.url, '--join-token-file', token, '--dir', dir, ...more];
};

test.each<[ErrorCode, string, string]>([
  ['join_token_invalid', 'refused the join token: It was used up.', 'slipway join-token create POOL'],
  ['enrollment_invalid', 'refused the enrolment token: It was used up.', 're-enroll'],
  ['pool_not_found', 'the pool of the join token does not exist: It was used up.', 'slipway apply -f FILE'],
])('names problem and remedy if the registration is refused with %s', async (code, problemText, remedy) => {
  server.override(({ path }) =>
    path === '/v1/agent/register' ? problem(code, { detail: 'It was used up.\n\u001b[2J' }) : null,
  );
  const { code: exit, stdout, stderr } = await runToEnd(...joinArguments());
  expect(exit).toBe(exitCodes.registration_refused);
  expect(stderr).toMatch(/^slipway agent: [^\n]+\n {2}What to do: [^\n]+\n$/);
  expect(stderr).toContain(problemText);
  expect(stderr.split('What to do: ')[1]).toContain(remedy);
  expect(stdout, 'the log contains the code too').toContain(`"code":"registration_refused"`);
});

test('names the network fault and its remedy if the server is not reached by the deadline', async () => {
  const server_url = `http://127.0.0.1:${await freePort()}`;
  const config = join(dir, 'agent.json');
  writeFileSync(config, JSON.stringify({ server_url, dir, join_token: 'j', deadline_at: '2020-01-01T00:00:00Z' }));
  const { code, stderr } = await runToEnd('--config', config);
  expect(code).toBe(exitCodes.registration_deadline);
  expect(stderr).toContain(`slipway agent: ${server_url} was not reached in time: `);
  expect(stderr).toContain(
    `  What to do: ${pathFaults.tcp_refused.remedy} slipway agent doctor --server ${server_url}`,
  );
});

test('asks for a token if the agent has neither token nor credential', async () => {
  const { code, stderr } = await runToEnd('--server', server.url, '--dir', dir);
  expect(code).toBe(exitCodes.registration_refused);
  expect(stderr).toMatch(/^slipway agent: the agent has no token .+\n {2}What to do: Pass a token with --join-token/);
});

test('names a directory that another agent uses, or that cannot be written', async () => {
  const first = bench.start(dir, { server_url: server.url });
  await until(() => server.beats.length > 0, 'the first agent runs');
  const second = await runToEnd(...joinArguments());
  expect(second.code).toBe(3);
  expect(second.stderr).toBe(
    `slipway agent: another agent uses ${dir}: process ${first.pid}\n  What to do: Stop the other agent, or choose another directory with --dir.\n`,
  );
  const below = join(dir, 'agent.json', 'below');
  const { code, stderr } = await runToEnd(...joinArguments('--dir', below));
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /^slipway agent: the agent cannot write to .+below: ENOTDIR.+\n {2}What to do: Allow the agent's user/,
  );
  expect(stderr.split('\n'), 'no stack trace').toHaveLength(3);
});

test('reports an unknown flag in two lines', async () => {
  const { code, stderr } = await runToEnd('--sever', server.url);
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /^slipway agent: invalid arguments: Unknown option '--sever'.*\n {2}What to do: See slipway agent --help/,
  );
  expect(stderr.split('\n')).toHaveLength(3);
});

test('prints nothing for a stopped or replaced agent', async () => {
  const context = { server_url: server.url, dir };
  expect(endMessage({ code: 'stopped', reason: 'received a stop signal' }, context)).toBeNull();
  const failure = { code: 'instance_fenced', detail: 'it was replaced' };
  expect(endMessage({ code: 'instance_fenced', reason: 'fenced', failure }, context)).toBeNull();
});

test('prints a message without secrets for every other end', () => {
  const context = { server_url: server.url, dir };
  const silentCodes = ['stopped', 'instance_fenced'];
  for (const code of Object.keys(exitCodes).filter((exitCode) => !silentCodes.includes(exitCode))) {
    const message = messageFor(code, `refused swj_${'a1'.repeat(16)}\n    at main.ts:1`, context);
    expect(message, code).toMatch(/^slipway agent: [^\n]+\n {2}What to do: [^\n]+\n$/);
    expect(message, code).not.toContain('swj_');
  }
  const unknownFailure = { code: 'constructor', detail: 'x' };
  expect(endMessage({ code: 'registration_refused', reason: 'r', failure: unknownFailure }, context)).toContain(
    'refused the registration',
  );
});

test('redacts secrets and control characters, and stays short', () => {
  const context = { server_url: 'https://bob:hunter2secret@cp.example', dir: '/srv/\u001b[2Jagent\u202e' };
  const message = messageFor('registration_refused', 'x'.repeat(1_000_000), context) ?? '';
  expect(message).not.toContain('hunter2secret');
  expect(message.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(message.length).toBeLessThan(5_000);
});

test('redacts a secret at the place where a long text is cut', () => {
  const cause = `${'x'.repeat(980)} swj_${'a1'.repeat(16)}`;
  expect(messageFor('registration_refused', cause, { server_url: server.url, dir })).not.toContain('swj_');
});
