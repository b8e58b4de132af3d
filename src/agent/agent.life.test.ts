/** Tests an agent process from start to end, against a server that speaks the protocol. */

import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { moment, systemClock } from '../base/clock.ts';
import { traceIdOf } from '../base/telemetry/trace.ts';
import { listProcesses } from './process/process-table.ts';
import { type AgentBench, agentBench, until } from './testing/agent-process.ts';
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

const start = (config: Record<string, unknown> = {}, dir = bench.dir()) =>
  bench.start(dir, { server_url: server.url, ...config });
const inSeconds = (seconds: number) => moment(systemClock.nowMs() + seconds * 1000).toISOString();
const hasReported = (status: string) => server.beats.some((beat) => beat.status === status);
const countRequests = (path: string) => server.requests.filter((request) => request.path === path).length;

describe('start', () => {
  test('boots, registers with its token and boot stages, and reports ready', async () => {
    // So long that a report which waited for the next heartbeat would never come.
    server.interval_seconds = 600;
    const agent = start({
      setup: 'echo from setup',
      command: ['/bin/sh', '-c', 'echo "tag $SLIPWAY_NODE_INSTANCE_ID $GREETING $SLIPWAY_OTLP_HEADERS."; sleep 60'],
      env: { GREETING: 'hello' },
      boot_stages: [{ name: 'image-pull', seconds: 0.05 }],
      requires: [{ name: 'shell', check: 'test -x /bin/sh' }],
    });
    await until(() => hasReported('ready'), 'ready reported');
    const [first] = server.registrations;
    expect(first).toMatchObject({ enrollment_token: 'enrol', name: 'n1' });
    expect(first?.boot?.stages.map(({ name }) => name)).toEqual(['prerequisites', 'image-pull', 'setup']);
    // A timer may fire a millisecond early.
    expect(first?.boot?.stages[1]?.seconds).toBeGreaterThanOrEqual(0.048);
    const registering = server.requests.find(({ path }) => path === '/v1/agent/register');
    expect(registering?.headers).toMatchObject({
      'x-correlation-id': 'corr-1',
      traceparent: expect.stringContaining(traceIdOf('corr-1')),
    });
    expect(hasReported('starting')).toBe(true);
    await until(() => server.stages.some(({ name }) => name === 'command'), 'the command as a boot stage');
    await until(
      () => server.lines.some(({ line }) => line === `tag ${node.node_instance_id} hello .`),
      'the output of the command',
    );
    expect(server.lines.find(({ line }) => line === 'from setup')?.stream).toBe('setup');
    const own = server.lines.filter(({ stream }) => stream === 'agent');
    for (const { line } of own) {
      expect(JSON.parse(line)).toMatchObject({
        ...node,
        correlation_id: 'corr-1',
        workflow_id: 'op_9',
      });
    }
    expect(agent.output()).toContain(own[0]?.line);
    expect(agent.output()).not.toContain(server.credential);
  });

  test('without a command the first heartbeat reports ready', async () => {
    start();
    await until(() => server.beats.length > 0, 'a heartbeat');
    expect(server.beats[0]).toMatchObject({ status: 'ready', health_score: 100, error_rate: 0, active_tasks: 0 });
  });

  test('a failed set-up ends the agent before it registers, and the exit file has the last output', async () => {
    const agent = start({ setup: 'echo pulling; echo no such image >&2; exit 3' });
    expect((await agent.exit).code).toBe(10);
    expect(agent.exitFile()).toMatchObject({
      code: 'setup_failed',
      reason: 'setup exited with code 3',
      exit_status: 10,
    });
    expect(agent.exitFile()?.last_output).toContain('no such image');
    expect(server.registrations).toEqual([]);
  });

  test('a missing prerequisite ends the agent, and the exit file names it', async () => {
    const agent = start({
      requires: [
        { name: 'shell', check: 'true' },
        { name: 'gpu-driver', check: 'no-such-program-here -L' },
      ],
    });
    expect((await agent.exit).code).toBe(11);
    expect(agent.exitFile()).toMatchObject({ code: 'prerequisite_missing' });
    expect(agent.exitFile()?.reason).toContain('gpu-driver');
  });

  test('a second agent in the same directory refuses to start and disturbs nothing', async () => {
    const agent = start();
    await until(() => hasReported('ready'), 'ready reported');
    const second = start({}, agent.dir);
    expect((await second.exit).code).toBe(3);
    expect(second.output()).toContain(String(agent.pid));
    const before = server.beats.length;
    await until(() => server.beats.length > before + 1, 'beats of the first agent');
  });
});

describe('registration', () => {
  test('retries while the enrolment is pending, or the server is overloaded, broken or not Slipway', async () => {
    const replies = [
      problem('enrollment_pending', { retry_after_seconds: 0.05, deadline_at: inSeconds(60) }),
      problem('rate_limited', { retry_after_seconds: 0.05 }),
      problem('store_unavailable'),
      { status: 502, body: '<html>bad gateway</html>', type: 'text/html' },
    ];
    server.override(({ path }) => (path === '/v1/agent/register' ? (replies.shift() ?? null) : null));
    start({ deadline_at: inSeconds(30) });
    await until(() => hasReported('ready'), 'ready reported');
    await until(() => server.facts.length >= 4, 'the failures as evidence');
    const facts = server.facts.map(({ layer, data }) => `${layer} ${data.call} ${data.detail_layer} ${data.code}`);
    expect(facts.toSorted()).toEqual([
      'transport agent-register control_plane rate_limited',
      'transport agent-register credential enrollment_pending',
      'transport agent-register ingress ingress_stranger',
      'transport agent-register store store_unavailable',
    ]);
  });

  test('finds a control plane that starts later', async () => {
    await server.stop();
    const agent = start({ deadline_at: inSeconds(30) });
    await until(() => agent.output().includes('ECONNREFUSED'), 'a failed try');
    await server.start();
    await until(() => hasReported('ready'), 'ready reported');
    await until(() => server.facts.some(({ data }) => data.detail_layer === 'tcp'), 'the failure as evidence');
  });

  test("gives up at the server's deadline, which a pending reply moves", async () => {
    const budget_seconds = 2;
    const deadline_at = inSeconds(budget_seconds);
    const began = systemClock.monotonicMs();
    server.override(() => problem('enrollment_pending', { retry_after_seconds: 0.2, deadline_at }));
    const agent = start({ deadline_at: inSeconds(3600) });
    expect((await agent.exit).code).toBe(12);
    // `Date` has whole seconds, so the agent's estimate of the server's time may be half a second
    // off.
    expect(systemClock.monotonicMs() - began).toBeGreaterThan((budget_seconds - 1) * 1000);
    expect(agent.exitFile()).toMatchObject({ code: 'registration_deadline' });
    expect(agent.exitFile()?.reason).toContain('enrollment_pending');
    expect(agent.exitFile()?.reason).toContain(deadline_at);
  });

  test('registers even if the boot took longer than the deadline, because the server may rescue it', async () => {
    start({ deadline_at: inSeconds(-5) });
    await until(() => hasReported('ready'), 'ready reported');
  });

  test('gives up by its own clock if no server ever answered', async () => {
    await server.stop();
    const agent = start({ deadline_at: inSeconds(0.1) });
    expect((await agent.exit).code).toBe(12);
    expect(agent.exitFile()?.reason).toContain('ECONNREFUSED');
    await server.start();
  });

  test('a refused token ends the agent at once', async () => {
    server.override(() => problem('enrollment_invalid'));
    const agent = start({ deadline_at: inSeconds(60) });
    expect((await agent.exit).code).toBe(13);
    expect(agent.exitFile()?.reason).toContain('enrollment_invalid');
    expect(countRequests('/v1/agent/register')).toBe(1);
  });

  test('a fenced instance ends without a failure', async () => {
    server.override(() => problem('instance_fenced'));
    const agent = start({ deadline_at: inSeconds(60) });
    expect((await agent.exit).code).toBe(0);
    expect(agent.exitFile()).toMatchObject({ code: 'instance_fenced' });
  });
});

describe('restart', () => {
  test('continues with its credential, its command and without a second set-up', async () => {
    const config = { setup: 'echo x >> setups', command: ['/bin/sh', '-c', 'echo $$ >> pids; sleep 60'] };
    const first = start(config);
    await until(() => hasReported('ready'), 'ready reported');
    const state = join(first.dir, '.agent', 'state.json');
    expect(statSync(state).mode & 0o777).toBe(0o600);
    first.kill('SIGKILL');
    await first.exit;
    server.beats.length = 0;
    start(config, first.dir);
    await until(() => hasReported('ready'), 'ready reported again');
    expect(server.registrations).toHaveLength(2);
    expect(server.registrations[1]).not.toHaveProperty('enrollment_token');
    expect(server.registrations[1]?.agent_public_key).toBe(server.registrations[0]?.agent_public_key);
    expect(readFileSync(join(first.dir, 'setups'), 'utf8')).toBe('x\n');
    const pids = readFileSync(join(first.dir, 'pids'), 'utf8').trim().split('\n').map(Number);
    const running = listProcesses().map(({ pid }) => pid);
    expect(pids.map((pid) => running.includes(pid))).toEqual([true]);
  });

  test('another enrolment token means another instance', async () => {
    const first = start();
    await until(() => hasReported('ready'), 'ready reported');
    first.kill('SIGTERM');
    await first.exit;
    start({ enrollment_token: 'enrol-again' }, first.dir);
    await until(() => server.registrations.length === 2, 'a registration');
    expect(server.registrations[1]).toMatchObject({ enrollment_token: 'enrol-again' });
  });

  test('survives an outage of the control plane', async () => {
    const agent = start();
    await until(() => hasReported('ready'), 'ready reported');
    await server.stop();
    await until(() => agent.output().includes('a heartbeat failed'), 'a failed heartbeat');
    server.beats.length = 0;
    await server.start();
    await until(() => server.beats.length > 2, 'beats again');
    const id = server.queue('ping');
    await until(() => server.results.has(id), 'tasks again');
    await until(() => server.facts.some(({ data }) => data.call === 'agent-heartbeat'), 'the failures as evidence');
    expect(server.registrations).toHaveLength(1);
  });
});

describe('end', () => {
  test('on SIGINT it reports stopping, ends its command, ships its last lines and leaves no exit file', async () => {
    const agent = start({
      command: ['/bin/sh', '-c', 'trap "echo last words; exit 0" TERM; echo up; while :; do sleep 0.05; done'],
    });
    await until(() => hasReported('ready'), 'ready reported');
    agent.kill('SIGINT');
    expect(await agent.exit).toEqual({ code: 0, signal: null });
    expect(server.beats.at(-1)?.status).toBe('stopping');
    expect(server.lines.map(({ line }) => line)).toContain('last words');
    expect(agent.exitFile()).toBeNull();
  });

  test('stops in bounded time although the control plane hangs and the command ignores SIGTERM', async () => {
    const agent = start({ command: ['/bin/sh', '-c', 'trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done'] });
    await until(() => hasReported('ready'), 'ready reported');
    server.override(() => 'hang');
    agent.kill('SIGINT');
    expect((await agent.exit).code).toBe(0);
    const pid = Number(readFileSync(join(agent.dir, 'pid'), 'utf8'));
    expect(listProcesses().some((row) => row.pid === pid)).toBe(false);
  });

  test('a stop during the set-up ends the set-up', async () => {
    const agent = start({ setup: 'echo $$ > pid; sleep 60' });
    await until(() => agent.output().includes('set-up started'), 'set-up');
    agent.kill('SIGTERM');
    expect((await agent.exit).code).toBe(0);
    expect(server.registrations).toEqual([]);
    expect(agent.exitFile()).toBeNull();
  });

  test('a fenced agent ends everything of its instance and ships its last lines', async () => {
    const agent = start({
      setup: '(setsid sleep 60 & echo $! > daemon) >/dev/null 2>&1',
      command: ['/bin/sh', '-c', 'echo $$ > pid; sleep 60'],
    });
    await until(() => hasReported('ready'), 'ready reported');
    const acceptedLines: { seq: number; line: string }[] = [];
    server.override(({ path, body }) => {
      const fenced = problem('instance_fenced');
      if (path !== '/v1/agent/logs' || !Array.isArray(body)) return fenced;
      acceptedLines.push(...body);
      return { ...fenced, body: { ...Object(fenced.body), acknowledged_seq: acceptedLines.at(-1)?.seq } };
    });
    expect((await agent.exit).code).toBe(0);
    expect(agent.exitFile()).toMatchObject({ code: 'instance_fenced' });
    // The server accepts the last lines of a fenced agent.
    expect(acceptedLines.filter(({ line }) => line.includes('agent ended'))).toHaveLength(1);
    const pids = ['pid', 'daemon'].map((name) => Number(readFileSync(join(agent.dir, name), 'utf8')));
    expect(listProcesses().filter(({ pid }) => pids.includes(pid))).toEqual([]);
  });
});

describe('a running agent', () => {
  test('reports degraded if its command keeps crashing', async () => {
    start({ command: ['/bin/sh', '-c', 'exit 7'] });
    await until(() => hasReported('degraded'), 'degraded reported');
    const degraded = server.beats.find(({ status }) => status === 'degraded');
    expect(degraded).toMatchObject({ error_rate: 1 });
    expect(degraded?.message).toContain('exited with code 7');
    await until(() => server.facts.some(({ kind }) => kind === 'command_ended'), 'the ends as evidence');
  });

  test('uses the interval that it was assigned last', async () => {
    const beatsAt: number[] = [];
    server.override(({ path }) => {
      if (path === '/v1/agent/heartbeat') beatsAt.push(systemClock.monotonicMs());
      return null;
    });
    start();
    await until(() => beatsAt.length > 3, 'beats');
    server.interval_seconds = 0.5;
    const before = beatsAt.length;
    const intervals = 4;
    await until(() => beatsAt.length > before + 1 + intervals, 'more heartbeats');
    // The first heartbeat after the change was still due by the old interval, so it is left out.
    // Jitter makes a pause up to a tenth shorter, and the first heartbeat may arrive late.
    const [first = 0, last = 0] = [beatsAt[before + 1], beatsAt[before + 1 + intervals]];
    expect(last - first).toBeGreaterThan(intervals * server.interval_seconds * 1000 * 0.8);
  });

  test('waits for retry_after if a heartbeat is refused for overload', async () => {
    start();
    await until(() => hasReported('ready'), 'ready reported');
    const retry_after_seconds = 1;
    let shedAt = 0;
    server.override(({ path }) => {
      if (path !== '/v1/agent/heartbeat' || shedAt > 0) return null;
      shedAt = systemClock.monotonicMs();
      return problem('beats_slow_down', { retry_after_seconds });
    });
    await until(() => shedAt > 0, 'a shed beat');
    const before = server.beats.length;
    await until(() => server.beats.length > before, 'the next heartbeat');
    expect(systemClock.monotonicMs() - shedAt).toBeGreaterThanOrEqual(retry_after_seconds * 1000);
  });
});

test('refuses an invalid configuration with a reason', async () => {
  const dir = bench.dir();
  writeFileSync(join(dir, 'x'), '');
  const agent = bench.start(dir, { server_url: 'ftp://nowhere' });
  expect((await agent.exit).code).toBe(2);
  expect(agent.output()).toContain('http or https');
});
