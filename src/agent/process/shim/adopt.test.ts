/** Tests that a command survives the agent, and that the next agent adopts it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { agentDirectory, readStoredState } from '../../state/state-file.ts';
import { type AgentBench, type AgentProcess, agentBench, until } from '../../testing/agent-process.ts';
import { node, type ProtocolServer, problem, protocolServer } from '../../testing/protocol-server.ts';
import { agentVersion } from '../../version.ts';
import { type CommandRecord, commandRecords } from '../command-record.ts';
import { listProcesses, readProcess } from '../process-table.ts';

let server: ProtocolServer;
let bench: AgentBench;
const unrelatedProcesses: ChildProcess[] = [];
beforeEach(async () => {
  server = await protocolServer();
  bench = agentBench();
});
afterEach(async () => {
  await bench.clear();
  for (const child of unrelatedProcesses.splice(0)) child.kill('SIGKILL');
  await server.stop();
});

const shell = (script: string) => ['/bin/sh', '-c', script];
/** Appends its pid to a file at each start, and then works until the file `enough` exists. */
const counting = shell(
  'echo $$ >> pids; n=0; while [ ! -e enough ]; do n=$((n+1)); echo "count $n"; sleep 0.01; done; echo last; exec sleep 60',
);

const start = (dir: string, config: Record<string, unknown> = {}) =>
  bench.start(dir, { server_url: server.url, command: counting, ...config });
const isReported = (status: string) => server.beats.some((beat) => beat.status === status);
const isRunning = (pid: number) => listProcesses().some((row) => row.pid === pid);
const readPids = (dir: string) =>
  existsSync(join(dir, 'pids')) ? readFileSync(join(dir, 'pids'), 'utf8').trim().split('\n').map(Number) : [];
const readCounts = () =>
  server.lines.filter(({ line }) => line.startsWith('count ')).map(({ line }) => Number(line.slice(6)));
const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);
const listCommandEnds = () => server.facts.filter(({ kind }) => kind === 'command_ended');

async function startReady(dir: string, config: Record<string, unknown> = {}): Promise<AgentProcess> {
  const agent = start(dir, config);
  await until(() => isReported('ready'), 'ready reported');
  return agent;
}

async function end(agent: AgentProcess, signal: NodeJS.Signals) {
  agent.kill(signal);
  const { code } = await agent.exit;
  server.beats.length = 0;
  return code;
}

/** Returns the record of a command whose agent has ended, for tests that change it. */
function readRecord(dir: string): CommandRecord {
  const record = commandRecords(agentDirectory(dir)).read();
  if (!record) throw new Error('there is no record');
  return record;
}

/** A process that has nothing to do with the agent. */
function startUnrelatedProcess() {
  const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
  unrelatedProcesses.push(child);
  const pid = child.pid ?? 0;
  return { pid, start: readProcess(pid)?.start ?? '' };
}

describe('an agent that ends', () => {
  test.for(['SIGKILL', 'SIGTERM', 'SIGHUP'] as const)('by %s leaves the command to the next agent', async (signal) => {
    const dir = bench.dir();
    const agents = 3;
    for (let i = 0; i < agents; i++) {
      const agent = await startReady(dir);
      const before = readCounts().length;
      await until(() => readCounts().length > before + 5, 'output');
      await end(agent, signal);
    }
    await startReady(dir);
    expect(isReported('starting') || isReported('degraded') || isReported('stopping')).toBe(false);
    writeFileSync(join(dir, 'enough'), '');
    await until(() => server.lines.some(({ line }) => line === 'last'), 'the last line');
    expect(readCounts()).toEqual(upTo(readCounts().length));
    expect(readPids(dir)).toHaveLength(1);
    expect(listCommandEnds()).toEqual([]);
    expect(readStoredState(dir)?.command_restarts).toBe(0);
  });

  test('by SIGTERM does not report stopping, and by SIGINT ends the command and reports stopping', async () => {
    const dir = bench.dir();
    const first = await startReady(dir);
    const seen = server.beats;
    first.kill('SIGTERM');
    expect((await first.exit).code).toBe(0);
    expect(seen.some(({ status }) => status === 'stopping')).toBe(false);
    const [pid = 0] = readPids(dir);
    expect(isRunning(pid)).toBe(true);
    seen.length = 0;
    const second = await startReady(dir);
    second.kill('SIGINT');
    expect((await second.exit).code).toBe(0);
    expect(server.beats.at(-1)?.status).toBe('stopping');
    expect(isRunning(pid)).toBe(false);
    await startReady(dir);
    expect(listCommandEnds(), 'the agent ended the command itself').toEqual([]);
  });

  test('by SIGTERM ends the command if the configuration says so', async () => {
    const dir = bench.dir();
    await end(await startReady(dir, { stop_ends_command: true }), 'SIGTERM');
    expect(readPids(dir).filter(isRunning)).toEqual([]);
  });

  test('leaves no secret in its record', async () => {
    const dir = bench.dir();
    await end(await startReady(dir, { env: { DB_PASSWORD: 'planted-secret-77' } }), 'SIGKILL');
    expect(JSON.stringify(readRecord(dir))).not.toContain('planted');
    for (const file of ['cmdline', 'environ'])
      expect(readFileSync(`/proc/${readRecord(dir).shim.pid}/${file}`, 'utf8')).not.toContain('planted');
  });
});

test('an agent of another version adopts the command, although the program file of the former agent is gone', async () => {
  const dir = bench.dir();
  const input = join(import.meta.dirname, '../../main.ts');
  const bundle = await rolldown({ input, platform: 'node', transform: { target: 'node20' } });
  const [former, next] = ['former.mjs', 'next.mjs'].map((name) => join(dir, name)) as [string, string];
  await bundle.write({ file: former, format: 'esm', codeSplitting: false });
  await bundle.close();
  cpSync(former, next);
  const text = readFileSync(next, 'utf8');
  const [, version = ''] = agentVersion.split('/');
  expect(text).toContain(version);
  writeFileSync(next, text.replaceAll(version, '99.0.0'));
  const config = { server_url: server.url, command: counting };
  const first = bench.start(dir, config, [process.execPath, former]);
  await until(() => isReported('ready') && readCounts().length > 5, 'ready with output');
  await end(first, 'SIGTERM');
  rmSync(former);
  bench.start(dir, config, [process.execPath, next]);
  await until(() => isReported('ready'), 'ready again');
  expect(server.registrations.map(({ version }) => version)).toEqual([agentVersion, 'slipway-agent/99.0.0']);
  writeFileSync(join(dir, 'enough'), '');
  await until(() => server.lines.some(({ line }) => line === 'last'), 'the last line');
  expect(readCounts()).toEqual(upTo(readCounts().length));
  expect(readPids(dir).map(isRunning)).toEqual([true]);
});

describe('a command that ended without an agent', () => {
  const config = { command: shell('echo $$ >> pids; while [ ! -e go ]; do sleep 0.01; done; rm go; echo bye; exit 7') };

  test('is reported with its last lines and exit code, and started again', async () => {
    const dir = bench.dir();
    await end(await startReady(dir, config), 'SIGKILL');
    const [pid = 0] = readPids(dir);
    writeFileSync(join(dir, 'go'), '');
    await until(() => !isRunning(pid), 'the command to end');
    await startReady(dir, config);
    await until(() => listCommandEnds().length > 0 && server.lines.some(({ line }) => line === 'bye'), 'the end');
    expect(listCommandEnds()).toMatchObject([
      { data: { exit_code: 7, signal: null, how: 'exited with code 7', restarts: 1 } },
    ]);
    await until(() => readPids(dir).length === 2, 'a new start');
    expect(isReported('degraded')).toBe(false);
  });

  test('has an unknown exit status if its shim was killed too', async () => {
    const dir = bench.dir();
    await end(await startReady(dir, config), 'SIGKILL');
    const { shim, group } = readRecord(dir);
    process.kill(shim.pid, 'SIGKILL');
    await startReady(dir, config);
    await until(() => listCommandEnds().length > 0 && readPids(dir).length === 2, 'a new start');
    expect(listCommandEnds()).toMatchObject([{ data: { exit_code: null, signal: null } }]);
    // Nothing read the output of the old command any more, so it was ended first.
    expect(isRunning(group ?? 0)).toBe(false);
  });
});

test.for([
  ['another start time', { start: '1' }, {}],
  ['another boot', {}, { boot_id: 'another' }],
] as const)('a reused pid with %s is neither adopted nor signalled', async ([, shimChange, change]) => {
  const dir = bench.dir();
  const agent = await startReady(dir);
  agent.kill('SIGINT');
  await agent.exit;
  const other = startUnrelatedProcess();
  const record = { ...readRecord(dir), is_over: false, shim: { ...other, ...shimChange }, group: other.pid };
  commandRecords(agentDirectory(dir)).write({ ...record, ...change });
  server.beats.length = 0;
  await startReady(dir);
  expect(isRunning(other.pid)).toBe(true);
  expect(readPids(dir).map(isRunning)).toEqual([false, true]);
  await until(() => listCommandEnds().length > 0, 'the end as evidence');
  expect(listCommandEnds()).toMatchObject([{ data: { exit_code: null, signal: null } }]);
});

test('of two agents that start at once, one adopts the command and the other refuses', async () => {
  const dir = bench.dir();
  await end(await startReady(dir), 'SIGKILL');
  const both = [start(dir), start(dir)];
  const refused = await Promise.race(both.map(async (agent) => ({ agent, ...(await agent.exit) })));
  expect(refused.code).toBe(3);
  await until(() => isReported('ready'), 'ready again');
  expect(readPids(dir).map(isRunning)).toEqual([true]);
});

test('an agent killed while the command is being started starts it once', async () => {
  const dir = bench.dir();
  const shimPid = () => commandRecords(agentDirectory(dir)).read()?.shim.pid ?? null;
  for (let i = 0; i < 5; i++) {
    // Ends the command of the previous agent, so that this agent has to start it.
    for (const pid of readPids(dir).filter(isRunning)) process.kill(pid, 'SIGKILL');
    const before = shimPid();
    const agent = start(dir);
    await until(() => shimPid() !== before || readPids(dir).some(isRunning), 'a shim');
    agent.kill('SIGKILL');
    await agent.exit;
  }
  await startReady(dir);
  await until(() => readPids(dir).filter(isRunning).length > 0, 'the command');
  expect(readPids(dir).filter(isRunning)).toHaveLength(1);
});

test('the ready line counts although it was printed while no agent ran', async () => {
  const dir = bench.dir();
  const config = {
    command: shell('echo up; while [ ! -e go ]; do sleep 0.01; done; echo SLIPWAY_READY; touch said; exec sleep 60'),
    env: { SLIPWAY_READY_LINE: '1' },
  };
  const agent = start(dir, config);
  await until(() => server.lines.some(({ line }) => line === 'up'), 'output');
  await end(agent, 'SIGKILL');
  writeFileSync(join(dir, 'go'), '');
  await until(() => existsSync(join(dir, 'said')), 'the ready line');
  await startReady(dir, config);
});

describe('an adopted command', () => {
  async function startAdopted(script = 'echo $$ >> pids; sleep 60') {
    const dir = bench.dir();
    const config = {
      setup: '(setsid sleep 60 & echo $! > daemon) >/dev/null 2>&1',
      command: shell(script),
    };
    await end(await startReady(dir, config), 'SIGKILL');
    const agent = await startReady(dir, config);
    const [pid = 0] = readPids(dir);
    const daemon = Number(readFileSync(join(dir, 'daemon'), 'utf8'));
    expect([pid, daemon].map(isRunning)).toEqual([true, true]);
    return { dir, agent, pid, daemon, shim: readRecord(dir).shim.pid };
  }

  test('ends at a fence, with everything of its instance', async () => {
    const { agent, pid, daemon, shim } = await startAdopted();
    server.override(() => problem('instance_fenced'));
    expect((await agent.exit).code).toBe(0);
    expect(agent.exitFile()).toMatchObject({ code: 'instance_fenced' });
    expect([pid, daemon, shim].map(isRunning)).toEqual([false, false, false]);
  });

  test('ends at a release, and the clean finds no process left', async () => {
    const { dir, pid, daemon, shim } = await startAdopted(
      'trap "echo bye; exit 0" TERM; echo $$ >> pids; sleep 60 & wait',
    );
    const stop = server.queue('release.stop');
    await until(() => server.results.has(stop), 'the stop');
    expect(server.results.get(stop)).toMatchObject({ status: 'succeeded' });
    expect([pid, daemon, shim].map(isRunning)).toEqual([false, false, false]);
    await until(() => server.lines.some(({ line }) => line === 'bye'), 'the last line');
    const clean = server.queue('release.clean', { nonce: 'n', reuse: true });
    await until(() => server.results.has(clean), 'the clean');
    expect(server.results.get(clean)).toMatchObject({ status: 'succeeded', result: { clean: true } });
    expect(readdirSync(agentDirectory(dir))).not.toContain('command');
    expect(listCommandEnds()).toEqual([]);
  });

  test('is reported and started again if it ends by itself later', async () => {
    const { dir, pid } = await startAdopted('echo $$ >> pids; while [ ! -e go ]; do sleep 0.01; done; rm go; exit 3');
    writeFileSync(join(dir, 'go'), '');
    await until(() => listCommandEnds().length > 0 && readPids(dir).length === 2, 'a new start');
    expect(listCommandEnds()).toMatchObject([{ data: { exit_code: 3, restarts: 1 } }]);
    expect(isRunning(pid)).toBe(false);
  });
});

test('a changed configuration ends the running command and starts the new one', async () => {
  const dir = bench.dir();
  await end(await startReady(dir), 'SIGTERM');
  await startReady(dir, { command: shell('echo $$ >> pids; exec sleep 61') });
  await until(() => readPids(dir).length === 2, 'the new command');
  expect(readPids(dir).map(isRunning)).toEqual([false, true]);
  expect(listCommandEnds()).toEqual([]);
});

test('a changed configuration ends the running command although its shim is gone', async () => {
  const dir = bench.dir();
  // The command prints nothing, because a write without a reader would end it.
  await end(await startReady(dir, { command: shell('echo $$ >> pids; exec sleep 60') }), 'SIGKILL');
  process.kill(readRecord(dir).shim.pid, 'SIGKILL');
  await startReady(dir, { command: shell('echo $$ >> pids; exec sleep 61') });
  await until(() => readPids(dir).length === 2, 'the new command');
  expect(readPids(dir).map(isRunning)).toEqual([false, true]);
});

test('a command that a reboot ended does not keep its ready state', async () => {
  const dir = bench.dir();
  // The command announces that it is ready only at its first start.
  const config = {
    command: shell('echo $$ >> pids; [ -e once ] || echo SLIPWAY_READY; touch once; exec sleep 60'),
    env: { SLIPWAY_READY_LINE: '1' },
  };
  await end(await startReady(dir, config), 'SIGKILL');
  const record = readRecord(dir);
  process.kill(record.shim.pid, 'SIGKILL');
  process.kill(readPids(dir)[0] ?? 0, 'SIGKILL');
  commandRecords(agentDirectory(dir)).write({ ...record, boot_id: 'another' });
  start(dir, config);
  await until(() => readPids(dir).length === 2 && listCommandEnds().length > 0, 'a new start');
  const beats = server.beats.length;
  await until(() => server.beats.length > beats, 'a heartbeat');
  expect(isReported('ready')).toBe(false);
});

test('another enrolment token ends the command of the former instance', async () => {
  const dir = bench.dir();
  await end(await startReady(dir), 'SIGTERM');
  const lines = server.lines.length;
  await startReady(dir, { enrollment_token: 'enrol-again', command: shell('echo $$ >> pids; exec sleep 61') });
  await until(() => readPids(dir).length === 2, 'the new command');
  expect(readPids(dir).map(isRunning)).toEqual([false, true]);
  const later = server.lines.slice(lines).filter(({ line }) => line.startsWith('count '));
  expect(later, 'lines of the former instance').toEqual([]);
});

test('a server that does not know a restarted agent does not end its command', async () => {
  const dir = bench.dir();
  await end(await startReady(dir), 'SIGKILL');
  server.override(() => problem('credential_unknown'));
  const agent = start(dir);
  await until(() => agent.output().includes('does not know this machine'), 'a refusal');
  expect(readPids(dir).map(isRunning)).toEqual([true]);
  const before = readCounts().length;
  expect(await end(agent, 'SIGTERM')).toBe(0);
  expect(readPids(dir).map(isRunning)).toEqual([true]);
  server.override(() => null);
  await startReady(dir);
  await until(() => readCounts().length > before + 20, 'output again');
  expect(readCounts()).toEqual(upTo(readCounts().length));
  expect(node.node_instance_id).toBe(readStoredState(dir)?.identity?.node_instance_id);
});
