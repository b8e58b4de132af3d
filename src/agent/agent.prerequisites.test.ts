/**
 * Tests prerequisites from the registration reply and the launch configuration. The agent runs in
 * the test process, so that checks repeat quickly.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
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
const timing = {
  ...defaultTiming,
  ready_after_ms: 20,
  register_retry: soon,
  beat_retry: soon,
  ship_retry: soon,
  task_retry: soon,
  log_batch_ms: 10,
  prerequisite_again_ms: 50,
  credential_doubt_ms: 300,
};

function startAgent(config: Record<string, unknown> = {}) {
  const stop = new AbortController();
  const command = ['/bin/sh', '-c', 'touch started; exec sleep 60'];
  const agentConfig = { server_url: server.url, dir, join_token: 'j', name: 'box', command, ...config };
  const env = { PATH: process.env.PATH };
  const stopping = { stop: stop.signal, stopEndsCommand: () => true, atExit() {} };
  const surroundings = { clock: systemClock, timing, env, ...stopping, agent_program: agentProgram, print() {} };
  const end = runAgent(configFrom(agentConfig), surroundings);
  running.push({ stop, end });
  return end;
}
async function stopAll() {
  for (const { stop } of running) stop.abort();
  await Promise.all(running.map(({ end }) => end));
  running = [];
}

const filePath = (name: string) => join(dir, name);
/** A prerequisite that is met if its file exists. Each check appends a line to checked-<name>. */
const fileCheck = (name: string) => ({
  name,
  check: `echo x >> checked-${name}; echo looking for ${name}; test -e ${name}`,
});
const createFile = (name: string) => writeFileSync(filePath(name), '');
const countChecks = (name: string) => {
  const path = filePath(`checked-${name}`);
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').length : 0;
};
const hasReportedStatus = (status: string) => server.beats.some((beat) => beat.status === status);
const waitUntilReady = () => until(() => hasReportedStatus('ready'), 'ready reported');
/** Each report as a line. */
const readReports = () =>
  server.prerequisites.map((report) => report.map(({ name, ok }) => `${name} ${ok ? 'met' : 'missing'}`).join(', '));
const waitForReports = (...expected: string[]) =>
  until(() => readReports().join('; ') === expected.join('; '), `reported: ${expected.join('; ')}`);
const waitForBeatNaming = (name: string) =>
  until(() => server.beats.at(-1)?.message?.includes(name) ?? false, `a heartbeat that names ${name}`);

describe('prerequisites from the registration reply', () => {
  test('are checked before the command runs, and are reported', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    startAgent({ command: ['/bin/sh', '-c', 'cp checked-disk copy; mv copy seen; exec sleep 60'] });
    await waitUntilReady();
    await waitForReports('disk met');
    await until(() => existsSync(filePath('seen')), 'the command');
    expect(readFileSync(filePath('seen'), 'utf8')).toBe('x\n');
    expect(server.registrations).toHaveLength(1);
    await until(() => server.stages.some(({ name }) => name === 'command'), 'the boot stages');
    expect(server.stages.map(({ name }) => name)).toEqual(['prerequisites', 'command']);
  });

  test('keep the node starting until they are met, and heartbeats name the missing one', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk'), fileCheck('gpu-driver')];
    startAgent();
    await waitForBeatNaming('gpu-driver');
    await until(() => countChecks('gpu-driver') > 4, 'it is checked again');
    expect(readReports()).toEqual(['disk met, gpu-driver missing']);
    expect(server.prerequisites[0]?.[1]?.detail).toBe('its check exited with code 1: looking for gpu-driver');
    expect(new Set(server.beats.map(({ status }) => status))).toEqual(new Set(['starting']));
    expect(server.beats.at(-1)).toMatchObject({ boot_stage: 'prerequisites' });
    expect(existsSync(filePath('started'))).toBe(false);
    createFile('gpu-driver');
    await waitUntilReady();
    await waitForReports('disk met, gpu-driver missing', 'disk met, gpu-driver met');
    await until(() => existsSync(filePath('started')), 'the command');
  });

  test('are reported again when a second one goes missing', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk'), fileCheck('gpu-driver')];
    startAgent();
    const reports = ['disk met, gpu-driver missing'];
    await waitForReports(...reports);
    rmSync(filePath('disk'));
    await waitForReports(...reports, 'disk missing, gpu-driver missing');
    createFile('gpu-driver');
    await waitForReports(...reports, 'disk missing, gpu-driver missing', 'disk missing, gpu-driver met');
    expect(hasReportedStatus('ready')).toBe(false);
    expect(existsSync(filePath('started'))).toBe(false);
  });

  test('override those from the launch configuration', async () => {
    createFile('old');
    server.requires = [{ name: 'driver', check: 'test -e new' }];
    startAgent({ requires: [{ name: 'driver', check: 'test -e old' }] });
    await waitForReports('driver missing');
    expect(hasReportedStatus('ready')).toBe(false);
    createFile('new');
    await waitUntilReady();
  });

  test('are checked and reported again when the machine joins again', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    startAgent();
    await waitUntilReady();
    rmSync(filePath('disk'));
    server.beats.length = 0;
    server.credential = 'credential-2';
    await waitForBeatNaming('disk');
    expect(hasReportedStatus('ready')).toBe(false);
    createFile('disk');
    await waitUntilReady();
    await until(() => readReports().at(-1) === 'disk met', 'that it is met');
    expect(readReports()).toContain('disk missing');
    expect(server.registrations.at(-1)).toMatchObject({ join_token: 'j' });
  });

  test('are not reported forever to a server that refuses the results', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    let refused = 0;
    server.override(({ path }) => {
      if (path !== '/v1/agent/prerequisites') return null;
      refused += 1;
      return problem('not_found');
    });
    startAgent();
    await waitUntilReady();
    const before = server.beats.length;
    await until(() => server.beats.length > before + 2, 'more heartbeats');
    expect(refused).toBe(1);
  });

  test('make the agent register again if they are malformed, so that it never runs without them', async () => {
    server.requires = [{ name: 'disk' }] as never;
    startAgent();
    await until(() => server.registrations.length > 2, 'registrations');
    expect(server.beats).toEqual([]);
  });
});

describe('prerequisites from the launch configuration', () => {
  test('are checked before the registration and reported after it', async () => {
    createFile('disk');
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
    await waitForReports('disk met');
    expect(server.registrations[0]?.boot?.stages.map(({ name }) => name)).toEqual(['prerequisites']);
  });

  test('are reported together with those from the reply', async () => {
    createFile('disk');
    createFile('gpu-driver');
    server.requires = [fileCheck('gpu-driver')];
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
    await waitForReports('gpu-driver met, disk met');
  });

  test('are not checked twice if the reply says the same', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
    await waitForReports('disk met');
    expect(countChecks('disk')).toBe(1);
  });

  test('end the agent if one is missing at a later start', async () => {
    createFile('disk');
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
    await stopAll();
    rmSync(filePath('disk'));
    const end = await startAgent({ requires: [fileCheck('disk')] });
    expect(end).toMatchObject({ code: 'prerequisite_missing' });
    expect(end.reason).toContain('disk');
  });

  test('are not checked any more once the pool has dropped them', async () => {
    createFile('disk');
    server.requires = [];
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
    await stopAll();
    rmSync(filePath('disk'));
    server.beats.length = 0;
    startAgent({ requires: [fileCheck('disk')] });
    await waitUntilReady();
  });
});

describe('a later start', () => {
  const startOnceAndStop = async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    startAgent();
    await waitUntilReady();
    await until(() => existsSync(filePath('started')), 'the command');
    await stopAll();
    rmSync(filePath('started'));
    server.beats.length = 0;
  };

  test('checks the last known prerequisites without a server, and works once they are met', async () => {
    await startOnceAndStop();
    rmSync(filePath('disk'));
    await server.stop();
    const before = countChecks('disk');
    startAgent();
    await until(() => countChecks('disk') > before + 2, 'it is checked again');
    expect(existsSync(filePath('started'))).toBe(false);
    createFile('disk');
    await until(() => existsSync(filePath('started')), 'the command');
    await server.start();
    await waitUntilReady();
  });

  test('of a released machine waits for its prerequisites before it works', async () => {
    createFile('disk');
    server.requires = [fileCheck('disk')];
    startAgent();
    await waitUntilReady();
    const cleaned = server.queue('release.clean', { nonce: 'n' });
    await until(() => server.results.get(cleaned)?.status === 'succeeded', 'it is clean');
    await stopAll();
    for (const name of ['disk', 'started']) rmSync(filePath(name));
    server.node_status = 'ready';
    startAgent();
    await waitForBeatNaming('disk');
    const before = server.beats.length;
    await until(() => server.beats.length > before + 2, 'more heartbeats');
    expect(existsSync(filePath('started'))).toBe(false);
    createFile('disk');
    await until(() => existsSync(filePath('started')), 'the command');
  });

  test('is not part of the boot', async () => {
    await startOnceAndStop();
    const stages = server.stages.length;
    startAgent();
    await waitUntilReady();
    const before = server.beats.length;
    await until(() => server.beats.length > before + 2, 'more heartbeats');
    expect(server.stages).toHaveLength(stages);
  });
});
