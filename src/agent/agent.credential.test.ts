/**
 * Tests an agent whose credential or registration the control plane does not accept. The agent runs
 * in the process of the test, so that the timings can be short.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import type { CredentialReissue } from '../contract/agent/agent.ts';
import { reissueBody } from '../contract/agent/credential-reissue.ts';
import { keyProofBody } from '../contract/agent/key-proof.ts';
import { runAgent } from './agent.ts';
import { isSignedBy } from './connection/keys.ts';
import { listProcesses } from './process/process-table.ts';
import { configFrom } from './state/config.ts';
import { readStoredState } from './state/state-file.ts';
import { type AgentBench, agentBench, agentProgram, until } from './testing/agent-process.ts';
import { type ProtocolServer, problem, protocolServer } from './testing/protocol-server.ts';
import { defaultTiming } from './timing.ts';

let server: ProtocolServer;
let bench: AgentBench;
let stop: AbortController;
let ends: Promise<{ code: string }>[];
beforeEach(async () => {
  server = await protocolServer();
  bench = agentBench();
  stop = new AbortController();
  ends = [];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(ends);
  await bench.clear();
  await server.stop();
});

const beat_retry = { first_ms: 20, max_ms: 50 };
const unknown_credential_retry = { first_ms: 100, max_ms: 500 };
const timing = {
  ...defaultTiming,
  unknown_credential_retry,
  beat_retry,
  task_retry: beat_retry,
  ship_retry: beat_retry,
};

const reissuePath = '/v1/agent/credential/reissue';

/**
 * From now on the server accepts only `credential`, and issues it for a request that the key has
 * signed. The server refuses join tokens.
 */
function issueForSignature(credential: string) {
  const key = server.registrations[0]?.agent_public_key ?? '';
  server.credential = credential;
  server.override(({ path, headers, body }) => {
    if (path === '/v1/agent/register' && !headers.authorization) return problem('join_token_expired');
    if (path !== reissuePath) return null;
    const { signature, ...facts } = body as CredentialReissue;
    const isValid = headers.authorization === undefined && isSignedBy(key, reissueBody(facts), signature);
    return isValid ? { status: 200, body: { credential, credential_expires_at: null } } : problem('reissue_refused');
  });
}

const isRunning = (pid: number) => listProcesses().some((row) => row.pid === pid);

function startAgent(config: Record<string, unknown>, credential_doubt_ms: number, print = (_line: string) => {}) {
  const end = runAgent(configFrom({ server_url: server.url, dir: bench.dir(), ...config }), {
    clock: systemClock,
    timing: { ...timing, credential_doubt_ms },
    env: { PATH: process.env.PATH },
    stop: stop.signal,
    print,
    atExit() {},
    stopEndsCommand: () => true,
    agent_program: agentProgram,
  });
  ends.push(end);
  return end;
}

test('an enrolled agent keeps its command while its credential stays unknown, and asks rarely', async () => {
  const dir = bench.dir();
  const command = ['/bin/sh', '-c', 'echo $$ >> pids; exec sleep 60'];
  const end = startAgent({ enrollment_token: 'e', command, dir }, 100);
  await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready');
  const refusedAt: number[] = [];
  server.override(({ path }) => {
    // A server of an earlier version has no such route.
    if (path === reissuePath) return problem('not_found');
    refusedAt.push(systemClock.monotonicMs());
    return problem('credential_unknown');
  });
  await until(() => refusedAt.length > 0, 'a refusal');
  const steady_ms = (refusedAt[0] ?? 0) + 1_000;
  await until(() => (refusedAt.at(-1) ?? 0) > steady_ms + 3_000, 'more refusals');
  // Within this second, the loss is confirmed and the pauses reach their maximum. From then on, all
  // loops together send one call after each pause.
  const later = refusedAt.filter((at) => at > steady_ms);
  expect(later.length).toBeLessThan(3_000 / (unknown_credential_retry.max_ms / 2) + 2);
  const pid = Number(readFileSync(join(dir, 'pids'), 'utf8'));
  expect(isRunning(pid)).toBe(true);
  server.override(() => null);
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats again');
  const id = server.queue('ping');
  await until(() => server.results.has(id), 'tasks again');
  // A fence ends the command, unlike an unknown credential.
  server.override(() => problem('instance_fenced'));
  expect(await end).toMatchObject({ code: 'instance_fenced' });
  expect(isRunning(pid)).toBe(false);
});

test('an enrolled agent gets a new credential by a signature of its key, and keeps its command', async () => {
  const dir = bench.dir();
  const command = ['/bin/sh', '-c', 'echo $$ >> pids; exec sleep 60'];
  startAgent({ enrollment_token: 'e', command, dir }, 100);
  await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready');
  issueForSignature('credential-2');
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats with the new credential');
  expect(server.requests.filter(({ path }) => path === reissuePath)).toHaveLength(1);
  expect(server.registrations).toHaveLength(1);
  expect(readStoredState(dir)?.identity?.credential).toBe('credential-2');
  const pids = readFileSync(join(dir, 'pids'), 'utf8').trim().split('\n');
  expect(pids).toHaveLength(1);
  expect(isRunning(Number(pids[0]))).toBe(true);
});

test.for([{ enrollment_token: 'e' }, { join_token: 'j', name: 'box' }])(
  'a restarted agent gets a new credential by a signature of its key: %o',
  async (token) => {
    const dir = bench.dir();
    startAgent({ ...token, dir }, 100);
    await until(() => server.beats.length > 0, 'a heartbeat');
    stop.abort();
    await Promise.all(ends);
    stop = new AbortController();
    const [first] = server.registrations;
    issueForSignature('credential-2');
    const before = server.beats.length;
    startAgent({ ...token, dir }, 100);
    await until(() => server.beats.length > before, 'a heartbeat with the new credential');
    expect(server.registrations.at(-1)?.agent_public_key).toBe(first?.agent_public_key);
    expect(readStoredState(dir)?.identity?.credential).toBe('credential-2');
  },
);

test('an agent logs when its credential is lost, and when the server accepts the credential again', async () => {
  const logged: string[] = [];
  const messages = /does not know this machine|knows this machine again/;
  startAgent({ enrollment_token: 'e' }, 100, (line) => logged.push(...(messages.exec(line) ?? [])));
  await until(() => server.beats.length > 0, 'a heartbeat');
  const expected: string[] = [];
  for (let loss = 0; loss < 2; loss++) {
    server.override(() => problem('credential_unknown'));
    expected.push('does not know this machine');
    await until(() => logged.length === expected.length, 'the loss');
    server.override(() => null);
    expected.push('knows this machine again');
    await until(() => logged.length === expected.length, 'the return');
  }
  expect(logged).toEqual(expected);
});

test('an agent whose join token is refused keeps its credential, and uses it again when the server accepts it', async () => {
  const dir = bench.dir();
  const config = { join_token: 'j', name: 'box', dir };
  startAgent(config, 100);
  await until(() => server.beats.length > 0, 'a heartbeat');
  let joins = 0;
  server.override(({ path, headers }) => {
    if (path !== '/v1/agent/register' || headers.authorization) return problem('credential_unknown');
    joins += 1;
    return problem('join_token_invalid');
  });
  await until(() => joins > 1, 'refused joins');
  server.override(() => null);
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats again');
  expect(readStoredState(dir)?.identity?.credential).toBe('credential-1');
});

test('an agent survives a short time in which its credential is unknown', async () => {
  startAgent({ enrollment_token: 'e' }, 60_000);
  await until(() => server.beats.length > 0, 'a heartbeat');
  let refused = 0;
  server.override(() => (++refused > 10 ? null : problem('credential_unknown')));
  await until(() => refused > 10, 'refusals');
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats again');
  expect(server.registrations).toHaveLength(1);
});

test('an agent with a join token joins again when its credential is unknown', async () => {
  startAgent({ join_token: 'j', name: 'box' }, 100);
  await until(() => server.beats.length > 0, 'a heartbeat');
  server.credential = 'credential-2';
  server.beats.length = 0;
  await until(() => server.beats.length > 0, 'beats under the new credential');
  const again = server.registrations.at(-1);
  expect(again).toMatchObject({ join_token: 'j', name: 'box' });
  // The first registration had no identity to prove; this one proves that it is the same machine.
  expect(server.registrations[0]).not.toHaveProperty('key_proof');
  const { agent_public_key = '', key_proof } = again ?? {};
  const { signed_at = '', signature = '' } = key_proof ?? {};
  const body = keyProofBody({ name: 'box', join_token: 'j', agent_public_key, signed_at });
  expect(isSignedBy(agent_public_key, body, signature)).toBe(true);
});

test.for(['identity_unproven', 'name_taken'] as const)('an agent refused with %s proves its key once', async (code) => {
  server.override(({ path }) => (path === '/v1/agent/register' ? problem(code) : null));
  const end = await startAgent({ join_token: 'j', name: 'box' }, 100);
  expect(end).toMatchObject({ code: 'registration_refused' });
  const proofs = server.requests
    .filter(({ path }) => path === '/v1/agent/register')
    .map(({ body }) => Object.hasOwn(body as object, 'key_proof'));
  expect(proofs).toEqual([false, true]);
});

test('an agent ends if it has neither a token nor a credential', async () => {
  expect(await startAgent({}, 100)).toMatchObject({ code: 'registration_refused' });
  expect(server.requests).toEqual([]);
});
