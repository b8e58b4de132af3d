/**
 * Tests how long an agent tries to register, and which times it reports. Runs in this process, so
 * that retries are quick.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Clock, moment, systemClock } from '../base/clock.ts';
import { runAgent } from './agent.ts';
import { configFrom } from './state/config.ts';
import { type AgentBench, agentBench, agentProgram, until } from './testing/agent-process.ts';
import { type ProtocolServer, problem, protocolServer } from './testing/protocol-server.ts';
import { defaultTiming } from './timing.ts';

let server: ProtocolServer;
let bench: AgentBench;
let running: { stop: AbortController; end: Promise<{ code: string; reason: string }> }[];
let dir: string;
beforeEach(async () => {
  server = await protocolServer();
  bench = agentBench();
  running = [];
  dir = bench.dir();
});
afterEach(async () => {
  await stopAll();
  await bench.clear();
  await server.stop();
});

const soon = { first_ms: 20, max_ms: 50 };
const timing = { ...defaultTiming, register_retry: soon, beat_retry: soon, ship_retry: soon, task_retry: soon };

function startAgent(config: Record<string, unknown> = {}, clock: Clock = systemClock) {
  const stop = new AbortController();
  const agentConfig = { server_url: server.url, dir, enrollment_token: 'e', ...config };
  const env = { PATH: process.env.PATH };
  const stopping = { stop: stop.signal, stopEndsCommand: () => true, atExit() {} };
  const surroundings = { clock, timing, env, ...stopping, agent_program: agentProgram, print() {} };
  const end = runAgent(configFrom(agentConfig), surroundings);
  running.push({ stop, end });
  return end;
}
async function stopAll() {
  for (const { stop } of running) stop.abort();
  await Promise.all(running.map(({ end }) => end));
  running = [];
}

const registerPath = '/v1/agent/register';
const inSeconds = (seconds: number) => moment(systemClock.nowMs() + seconds * 1000).toISOString();
const countTries = () => server.requests.filter(({ path }) => path === registerPath).length;
const isPast = (deadline_at: string) => systemClock.nowMs() > Date.parse(deadline_at);
/** `Date` has whole seconds, so the agent's estimate of the server's time may be this far off. */
const date_seconds = 1;

describe('the deadline', () => {
  const pendingUntil = (deadline_at: string) => problem('enrollment_pending', { retry_after_seconds: 0, deadline_at });

  test('can be extended by a later reply', async () => {
    const first = inSeconds(date_seconds + 0.5);
    const extended = inSeconds(60);
    let deadline_at = first;
    server.override(({ path }) => (path === registerPath ? pendingUntil(deadline_at) : null));
    startAgent({ deadline_at: first });
    await until(() => countTries() > 0, 'a try');
    deadline_at = extended;
    await until(() => isPast(first), 'the first deadline is over');
    const before = countTries();
    const outlast = moment(Date.parse(first) + date_seconds * 1000).toISOString();
    await until(() => isPast(outlast) && countTries() > before + 2, 'more tries');
    server.override(() => null);
    await until(() => server.beats.length > 0, 'it registers');
  });

  test('can be shortened by a reply, even if the next reply names none', async () => {
    const shortened = inSeconds(0.2);
    let isAnswered = false;
    server.override(() => {
      const reply = isAnswered ? problem('store_unavailable', { retry_after_seconds: 0 }) : pendingUntil(shortened);
      isAnswered = true;
      return reply;
    });
    const end = await startAgent({ deadline_at: inSeconds(3600) });
    expect(end).toMatchObject({ code: 'registration_deadline' });
    expect(end.reason).toContain(shortened);
  });

  test('survives a restart of the agent', async () => {
    const launchDeadline = inSeconds(-5);
    server.override(() => pendingUntil(inSeconds(60)));
    startAgent({ deadline_at: launchDeadline });
    await until(() => countTries() > 1, 'tries');
    await stopAll();
    server.override(() => problem('store_unavailable', { retry_after_seconds: 0 }));
    const before = countTries();
    startAgent({ deadline_at: launchDeadline });
    await until(() => countTries() > before + 3, 'more tries');
    server.override(() => null);
    await until(() => server.beats.length > 0, 'it registers');
  });

  test('is ignored if it is not a valid time', async () => {
    server.override(() => pendingUntil('soon'));
    startAgent();
    await until(() => countTries() > 3, 'more tries');
  });
});

describe('a replica of an earlier version', () => {
  const readRequestBodies = () => server.requests.filter(({ path }) => path === registerPath).map(({ body }) => body);

  test('that does not support rotation gets a request without `rotates_credential`', async () => {
    server.override(({ path, body }) =>
      path === registerPath && 'rotates_credential' in (body as object) ? problem('invalid_request') : null,
    );
    startAgent();
    await until(() => server.beats.length > 0, 'it registers');
    expect(readRequestBodies()).toEqual([
      expect.objectContaining({ rotates_credential: true }),
      expect.not.objectContaining({ rotates_credential: true }),
    ]);
  });

  test('that refuses the request for another reason is asked twice at most', async () => {
    server.override(({ path }) => (path === registerPath ? problem('invalid_request') : null));
    expect(await startAgent()).toMatchObject({ code: 'registration_refused' });
    expect(readRequestBodies()).toHaveLength(2);
  });
});

describe('boot stages of a machine whose clock is wrong', () => {
  const years_ms = 5 * 365 * 24 * 3600 * 1000;
  const ahead: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + years_ms };
  const boot_stages = [{ name: 'image-pull', seconds: 0.05 }];
  const readSentStages = () =>
    server.requests.flatMap(({ path, body }) =>
      path === registerPath ? ((body as { boot?: { stages: { started_at?: string }[] } }).boot?.stages ?? []) : [],
    );

  test("have start times by the server's clock", async () => {
    const began_ms = systemClock.nowMs();
    startAgent({ boot_stages }, ahead);
    await until(() => server.beats.length > 0, 'it registers');
    const [stage] = server.stages;
    const off_ms = Date.parse(stage?.started_at ?? '') - began_ms;
    expect(Math.abs(off_ms)).toBeLessThan((date_seconds + 5) * 1000);
  });

  test('have no start time if no server has answered before', async () => {
    server.override(({ path }) => (path === '/healthz' ? 'reset' : null));
    startAgent({ boot_stages }, ahead);
    await until(() => server.stages.length > 0, 'it registers');
    expect(server.stages).toEqual([{ name: 'image-pull', seconds: expect.any(Number) }]);
  });

  test('have no start time once the server has rejected one', async () => {
    let refused = 0;
    server.override(({ path, body }) => {
      if (path !== registerPath || !JSON.stringify(body).includes('started_at')) return null;
      refused += 1;
      return problem('claim_from_future');
    });
    startAgent({ boot_stages, command: ['/bin/sleep', '60'] });
    await until(() => server.stages.length === 2, 'all stages');
    expect(refused).toBe(1);
    expect(readSentStages()).toHaveLength(2);
    for (const stage of server.stages) expect(stage).not.toHaveProperty('started_at');
  });

  test('are not sent forever to a server that refuses them', async () => {
    let refused = 0;
    server.override(({ path }) => {
      if (path !== '/v1/agent/boot') return null;
      refused += 1;
      return problem('claim_out_of_range');
    });
    startAgent({ command: ['/bin/sleep', '60'] });
    await until(() => refused > 0, 'a refusal');
    const before = server.beats.length;
    await until(() => server.beats.length > before + 3, 'more heartbeats');
    expect(refused).toBe(1);
  });
});
