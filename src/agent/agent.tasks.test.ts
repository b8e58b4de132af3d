/** Tests how an agent process fetches, checks, runs and answers tasks. */
import { createPublicKey, verify } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { moment, systemClock } from '../base/clock.ts';
import type { TaskResult } from '../contract/agent/agent.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import { listProcesses } from './process/process-table.ts';
import { type AgentBench, type AgentProcess, agentBench, until } from './testing/agent-process.ts';
import { node, type ProtocolServer, problem, protocolServer } from './testing/protocol-server.ts';

let server: ProtocolServer;
let bench: AgentBench;
beforeEach(async () => {
  server = await protocolServer();
  bench = agentBench();
});
afterEach(async () => {
  await bench.clear();
  await server.stop();
});

async function startReady(config: Record<string, unknown> = {}, dir = bench.dir()): Promise<AgentProcess> {
  const agent = bench.start(dir, { server_url: server.url, ...config });
  await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready reported');
  return agent;
}

async function resultOf(task_id: string): Promise<TaskResult> {
  await until(() => server.results.has(task_id), `a result of ${task_id}`);
  const result = server.results.get(task_id);
  if (!result) throw new Error('no result');
  return result;
}

const isRunning = (pid: number) => listProcesses().some((row) => row.pid === pid);
const readNumber = (agent: AgentProcess, name: string) => Number(readFileSync(join(agent.dir, name), 'utf8'));

test('sends the span of a task to a collector as part of the requesting trace', async () => {
  const collector = await protocolServer();
  try {
    await startReady({ otlp_endpoint: collector.url });
    const failingParams = { for: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }, nonce: '' };
    await resultOf(server.queue('ping', { for: { traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00` } }));
    const task_id = server.queue('release.clean', failingParams);
    await resultOf(task_id);
    const sent = () =>
      collector.requests.filter(({ path }) => path === '/v1/traces').map(({ body }) => JSON.stringify(body));
    await until(() => sent().length > 0, 'a span');
    expect(sent()).toHaveLength(1);
    const [resource] = JSON.parse(sent()[0] ?? '{}').resourceSpans;
    expect(resource.resource.attributes).toContainEqual({
      key: 'service.name',
      value: { stringValue: 'slipway-agent' },
    });
    expect(resource.scopeSpans[0].spans).toMatchObject([
      { traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16), name: 'agent release.clean', status: { code: 2 } },
    ]);
    expect(resource.scopeSpans[0].spans[0].attributes).toContainEqual({
      ...{ key: 'task_id', value: { stringValue: task_id } },
    });
  } finally {
    await collector.stop();
  }
});

test('repeats a lost poll after another call was interrupted', async () => {
  let polls = 0;
  let resets = 0;
  server.interval_seconds = 0.2;
  server.override(({ path }) => {
    if (path.startsWith('/v1/agent/tasks/next')) return polls++ === 0 ? 'hang' : null;
    return path === '/v1/agent/heartbeat' && polls === 1 && resets++ === 0 ? 'reset' : null;
  });
  await startReady();
  await until(() => resets > 0, 'an interruption');
  await resultOf(server.queue('ping'));
});

test('polls a server of an earlier version without `idle`, which that server refuses', async () => {
  server.refuses_idle = true;
  await startReady();
  await resultOf(server.queue('ping'));
  await resultOf(server.queue('ping'));
  const polls = server.requests.filter(({ path }) => path === '/v1/agent/tasks/next').map(({ query }) => query);
  expect(polls.filter((query) => query.includes('idle=true'))).toHaveLength(1);
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats that would have sent facts too');
  expect(server.facts, 'no failure to report').toEqual([]);
});

describe('results', () => {
  test("answers a ping, signed with the registered key, under the task's correlation id", async () => {
    await startReady();
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const task_id = server.queue('ping', { for: { traceparent } });
    const { status, result, signature } = await resultOf(task_id);
    expect({ status, result }).toMatchObject({ status: 'succeeded', result: { pong: true } });
    const spki = Buffer.from(server.registrations[0]?.agent_public_key ?? '', 'base64');
    const key = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    const signedText = canonicalJson({ task_id, node_instance_id: node.node_instance_id, status, result });
    expect(verify(null, Buffer.from(signedText), key, Buffer.from(signature ?? '', 'base64'))).toBe(true);
    const answer = server.requests.find(({ path }) => path.endsWith('/result'));
    expect(answer?.headers).toMatchObject({ 'x-correlation-id': 'correlation-of-task', traceparent });
    await until(() => server.lines.some(({ line }) => line.includes('task ended')), 'the log of the task');
    const line = server.lines.find((each) => each.line.includes('task ended'))?.line ?? '{}';
    expect(JSON.parse(line)).toMatchObject({
      ...{ task_id, ...node, correlation_id: 'correlation-of-task', allocation_id: 'alloc_1', workflow_id: 'op_1' },
    });
  });

  test('refuses each invalid task with its own code', async () => {
    await startReady();
    const forged = server.queue('ping', {}, (task) => ({ ...task, params: { more: true } }));
    const unknownKey = server.queue('ping', {}, (task) => ({ ...task, kid: 'key-9' }));
    const unknownType = server.queue('shell.run', { script: 'touch owned' });
    const inherited = server.queue('constructor');
    const codes = [];
    for (const id of [forged, unknownKey, unknownType, inherited]) codes.push((await resultOf(id)).error?.code);
    expect(codes).toEqual([
      'task_signature_invalid',
      'task_signature_invalid',
      'task_type_unknown',
      'task_type_unknown',
    ]);
    expect((await resultOf(forged)).status).toBe('failed');
  });

  test('refuses a task of another instance and one that expired', async () => {
    await startReady();
    const elsewhere = server.queue('ping', { for: { node_instance_id: 'inst_0' } });
    const late = server.queue('ping', { for: { expires_at: moment(systemClock.nowMs() - 5_000).toISOString() } });
    expect((await resultOf(elsewhere)).error?.code).toBe('task_wrong_node');
    expect((await resultOf(late)).error?.code).toBe('task_expired');
  });

  test('resends an undelivered result, and answers the same task without running it again', async () => {
    let refusals = 2;
    server.override(({ path }) => (path.endsWith('/result') && refusals-- > 0 ? problem('store_unavailable') : null));
    const agent = await startReady({ clean: 'echo x >> cleaned-times' });
    const task_id = server.queue('release.clean', { nonce: 'n1' });
    const first = await resultOf(task_id);
    server.results.clear();
    server.repeatLast();
    expect(await resultOf(task_id)).toEqual(first);
    expect(readFileSync(join(agent.dir, 'cleaned-times'), 'utf8')).toBe('x\n');
  });

  test('a restarted agent sends the stored result', async () => {
    const config = { clean: 'echo x >> cleaned-times' };
    const agent = await startReady(config);
    const task_id = server.queue('release.clean', { nonce: 'n1' });
    const first = await resultOf(task_id);
    agent.kill('SIGKILL');
    await agent.exit;
    server.results.clear();
    bench.start(agent.dir, { server_url: server.url, ...config });
    await until(() => server.registrations.length === 2, 'the successor');
    server.repeatLast();
    expect(await resultOf(task_id)).toEqual(first);
    expect(readFileSync(join(agent.dir, 'cleaned-times'), 'utf8')).toBe('x\n');
  });
});

describe('leases', () => {
  test('a long task renews its lease, and heartbeats report it as active', async () => {
    const agent = await startReady({ clean: 'while [ ! -e go ]; do sleep 0.02; done' });
    const task_id = server.queue('release.clean', { nonce: 'n1', lease_seconds: 0.3 });
    await until(() => server.progress.filter((id) => id === task_id).length >= 2, 'two renewals');
    await until(() => server.beats.some(({ active_tasks }) => active_tasks === 1), 'a heartbeat that counts it');
    writeFileSync(join(agent.dir, 'go'), '');
    expect((await resultOf(task_id)).status).toBe('succeeded');
  });

  test('a lost lease aborts the work, and the next task is fetched', async () => {
    const agent = await startReady({ clean: 'echo $$ > shell; sleep 60' });
    server.override(({ path }) => (path.endsWith('/progress') ? problem('task_lease_lost') : null));
    const lost = server.queue('release.clean', { nonce: 'n1', lease_seconds: 0.3 });
    const next = server.queue('ping');
    expect((await resultOf(next)).status).toBe('succeeded');
    expect(server.results.has(lost)).toBe(false);
    await until(() => !isRunning(readNumber(agent, 'shell')), 'the shell is gone');
  });
});

test('retries a fenced poll later without reporting a failure', async () => {
  let refusals = 2;
  server.override(({ path }) => {
    return path === '/v1/agent/tasks/next' && refusals-- > 0
      ? problem('node_fenced', { retry_after_seconds: 0.1 })
      : null;
  });
  await startReady();
  expect((await resultOf(server.queue('ping'))).status).toBe('succeeded');
  const before = server.beats.length;
  await until(() => server.beats.length > before + 2, 'beats that would have sent facts too');
  expect(server.facts).toEqual([]);
});

describe('release', () => {
  test('stop ends the command and processes that left its group; they stay down after a restart', async () => {
    const config = { command: ['/bin/sh', '-c', 'setsid sleep 60 & echo $! > stray; echo $$ > pid; wait'] };
    const agent = await startReady(config);
    await until(() => existsSync(join(agent.dir, 'pid')), 'the command runs');
    const pids = [readNumber(agent, 'pid'), readNumber(agent, 'stray')];
    expect(pids.map(isRunning)).toEqual([true, true]);
    expect(await resultOf(server.queue('release.stop'))).toMatchObject({
      status: 'succeeded',
      result: { stopped: true },
    });
    expect(pids.map(isRunning)).toEqual([false, false]);
    agent.kill('SIGKILL');
    await agent.exit;
    server.beats.length = 0;
    bench.start(agent.dir, { server_url: server.url, ...config });
    await until(() => server.beats.some(({ message }) => message?.includes('stopped by a release')), 'a heartbeat');
    expect(readNumber(agent, 'pid')).toBe(pids[0]);
  });

  test('clean answers with its nonce, lists what was checked, and leaves its marker', async () => {
    const agent = await startReady({ command: ['/bin/sh', '-c', 'sleep 60'], clean: 'echo removing' });
    const { status, result } = await resultOf(server.queue('release.clean', { nonce: 'nonce-7', reuse: true }));
    expect({ status, result }).toMatchObject({ status: 'succeeded', result: { clean: true, nonce: 'nonce-7' } });
    expect(result?.checked).toContainEqual({ what: 'processes of the instance except its agent', seen: 'none' });
    // A directory that a person provided is not emptied, but reported as not checked.
    expect(JSON.stringify(result?.checked)).toContain('not checked: Slipway did not create this machine');
    expect(existsSync(join(agent.dir, 'agent.json'))).toBe(true);
    expect(readFileSync(join(agent.dir, 'cleaned'), 'utf8')).toContain('nonce-7');
    // The lines were shipped before the answer: the server has every line up to the stated number.
    const last_line = server.lines.find(({ stream, line }) => stream === 'clean' && line === 'removing')?.seq;
    expect(last_line).toBeLessThanOrEqual(Number(result?.last_log_seq));
  });

  test('a failing clean reports its last lines, and succeeds once the cause is gone', async () => {
    const agent = await startReady({ clean: 'test -e fixed || { echo volume is busy; exit 4; }' });
    const { status, error } = await resultOf(server.queue('release.clean', { nonce: 'a' }));
    expect({ status, code: error?.code }).toEqual({ status: 'failed', code: 'clean_failed' });
    expect(error?.message).toBe('clean exited with code 4: volume is busy');
    expect(existsSync(join(agent.dir, 'cleaned'))).toBe(false);
    writeFileSync(join(agent.dir, 'fixed'), '');
    expect((await resultOf(server.queue('release.clean', { nonce: 'b' }))).status).toBe('succeeded');
  });

  test("a reused machine is like a new one: the tenant's files are gone, and it is set up again", async () => {
    const dir = bench.dir();
    const [work_dir, spare] = [join(dir, 'work'), join(dir, 'spare')];
    for (const each of [work_dir, spare]) mkdirSync(each);
    const config = { work_dir, workload_dirs: [work_dir, spare], setup: 'echo x >> ../set-up; echo prepared > file' };
    await startReady(config, dir);
    writeFileSync(join(work_dir, 'file'), 'changed by the tenant');
    for (const each of [work_dir, spare]) writeFileSync(join(each, '.secret'), 'of the tenant');
    const withoutReuse = await resultOf(server.queue('release.clean', { nonce: 'a' }));
    expect(withoutReuse.status).toBe('succeeded');
    expect(readFileSync(join(dir, 'set-up'), 'utf8'), 'without a reuse it is not set up again').toBe('x\n');
    const { result } = await resultOf(server.queue('release.clean', { nonce: 'b', reuse: true }));
    expect(result?.checked).toEqual(expect.arrayContaining([{ what: `directory ${work_dir}`, seen: 'emptied' }]));
    expect([readdirSync(work_dir), readdirSync(spare)]).toEqual([['file'], []]);
    expect(readFileSync(join(work_dir, 'file'), 'utf8')).toBe('prepared\n');
    expect(readFileSync(join(dir, 'set-up'), 'utf8')).toBe('x\nx\n');
  });

  test('nothing of a tenant stays: its lines are shipped first, and the disk keeps no trace', async () => {
    const dir = bench.dir();
    const [work_dir, output_file] = [join(dir, 'work'), join(dir, 'agent.out')];
    mkdirSync(work_dir);
    writeFileSync(output_file, 'printed by the agent for alloc_1\n');
    const plantFiles = 'for each in left-by-tenant .agent/left .agent/spool/left; do echo of-tenant > ../$each; done';
    const printLines = 'i=0; while [ $i -lt 3000 ]; do echo "of-tenant $i"; i=$((i+1)); done';
    const command = [
      '/bin/sh',
      '-c',
      `trap "echo of-tenant to the end; exit" TERM; ${plantFiles}; ${printLines}; sleep 60 & wait`,
    ];
    const dir_keeps = ['agent.json', 'agent.out', 'work'];
    let acceptsLogs = false;
    server.override(({ path }) => (path.endsWith('/logs') && !acceptsLogs ? problem('logs_slow_down') : null));
    const clean = 'echo > ../cleaning';
    await startReady({ work_dir, workload_dirs: [work_dir], command, clean, dir_keeps, output_file }, dir);
    await until(() => existsSync(join(dir, '.agent/spool/left')), 'the command runs');
    await resultOf(server.queue('release.freeze'));
    const tenantLines = () => server.lines.filter(({ line }) => line.startsWith('of-tenant'));
    const task_id = server.queue('release.clean', { nonce: 'a', reuse: true });
    await until(() => existsSync(join(dir, 'cleaning')), 'the clean runs');
    acceptsLogs = true;
    expect((await resultOf(task_id)).status).toBe('succeeded');
    expect(tenantLines().at(-1)?.line, 'the last line that was sent before the result').toBe('of-tenant to the end');
    const named = (name: string) => !['agent.json', 'work'].includes(name);
    const left = readdirSync(dir, { recursive: true, withFileTypes: true }).filter(
      (each) => each.isFile() && named(each.name),
    );
    const holding = left.filter(({ parentPath, name }) => {
      return /of-tenant|alloc_1/.test(readFileSync(join(parentPath, name), 'utf8'));
    });
    expect(holding.map(({ parentPath, name }) => join(parentPath, name))).toEqual([]);
    // The same task is answered as before, and lines continue with the next number.
    server.results.clear();
    server.repeatLast();
    expect((await resultOf(task_id)).result?.nonce).toBe('a');
    const seq = server.lines.at(-1)?.seq ?? 0;
    await until(
      () => server.lines.some((line) => line.seq > seq || line.line.includes('sending the stored result')),
      'later lines',
    );
  });

  test('a machine is not clean while the control plane has not accepted its lines', async () => {
    await startReady({ command: ['/bin/sh', '-c', 'sleep 60'] });
    server.override(({ path }) => (path.endsWith('/logs') ? problem('store_unavailable') : null));
    const expires_at = moment(systemClock.nowMs() + 1_500).toISOString();
    const { status, error } = await resultOf(
      server.queue('release.clean', { nonce: 'a', reuse: true, for: { expires_at } }),
    );
    expect({ status, code: error?.code }).toEqual({ status: 'failed', code: 'clean_failed' });
    expect(error?.message).toMatch(/^the control plane did not accept all log lines/);
  });

  test('a machine is not clean if a directory cannot be emptied', async () => {
    const dir = bench.dir();
    writeFileSync(join(dir, 'file'), 'of the owner of the machine');
    await startReady({ workload_dirs: [join(dir, 'file', 'below')] }, dir);
    const { status, error } = await resultOf(server.queue('release.clean', { nonce: 'a', reuse: true }));
    expect({ status, code: error?.code }).toEqual({ status: 'failed', code: 'clean_failed' });
    expect(error?.message).toMatch(/^the tenant's files in .* cannot be removed: ENOTDIR/);
    expect(existsSync(join(dir, 'cleaned'))).toBe(false);
  });

  test('a node that is free again after its release runs its command again', async () => {
    const agent = await startReady({ command: ['/bin/sh', '-c', 'echo $$ > pid; sleep 60'] });
    await resultOf(server.queue('release.stop'));
    await resultOf(server.queue('release.clean', { nonce: 'a' }));
    const before = readNumber(agent, 'pid');
    server.node_status = 'ready';
    server.beats.length = 0;
    await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready again');
    expect(readNumber(agent, 'pid')).not.toBe(before);
    expect(isRunning(readNumber(agent, 'pid'))).toBe(true);
  });

  test('freeze and diagnostics return what only the machine has', async () => {
    await startReady({
      setup: 'echo from setup',
      command: ['/bin/sh', '-c', 'for i in $(seq 300); do echo "line $i"; done; exec sleep 61'],
    });
    await until(() => server.lines.some(({ line }) => line === 'line 300'), 'the output of the command');
    for (const type of ['release.freeze', 'diagnostics.collect']) {
      const { status, result } = await resultOf(server.queue(type));
      expect(status).toBe('succeeded');
      const text = JSON.stringify(result);
      expect(text).toContain('"line 300"');
      expect(text).not.toContain('"line 20"');
      expect(text).toContain('sleep 61');
      expect(result?.lines).toHaveLength(200);
      expect(result?.boot_stages).toContainEqual(expect.objectContaining({ name: 'setup' }));
    }
  });
});
