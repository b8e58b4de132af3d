/** Tests that no log line is lost, repeated or reordered, even if the agent is killed. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { agentDirectory } from './state/state-file.ts';
import { type AgentBench, agentBench, endLeftCommand, until } from './testing/agent-process.ts';
import { type ProtocolServer, problem, protocolServer } from './testing/protocol-server.ts';

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

const readCounts = () =>
  server.lines.filter(({ line }) => line.startsWith('count ')).map(({ line }) => Number(line.slice(6)));
const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

const flood = `n=0
while [ ! -e enough ]; do n=$((n+1)); echo "count $n"; echo $n > count; done
echo final; sleep 60`;

test('killed repeatedly during a flood, delivers every line once and in order', async () => {
  const config = { server_url: server.url, command: ['/bin/sh', '-c', flood] };
  const dir = bench.dir();
  const kills = 3;
  for (let kill = 0; kill < kills; kill++) {
    const agent = bench.start(dir, config);
    const before = readCounts().length;
    await until(() => readCounts().length > before + 200, 'some lines');
    agent.kill('SIGKILL');
    await agent.exit;
  }
  const before = readCounts().length;
  bench.start(dir, config);
  await until(() => readCounts().length > before + 200, 'some lines');
  writeFileSync(join(dir, 'enough'), '');
  await until(() => server.lines.some(({ line }) => line === 'final'), 'the last line');
  expect(server.lines.map(({ seq }) => seq)).toEqual(upTo(server.lines.length));
  expect(readCounts()).toEqual(upTo(Number(readFileSync(join(dir, 'count'), 'utf8'))));
});

test('delivers lines written during an outage, or accepted in part, once and in order', async () => {
  const last = 2_000;
  const command = ['/bin/sh', '-c', `for i in $(seq ${last}); do echo "count $i"; done; sleep 60`];
  let calls = 0;
  server.override(({ path, body }) => {
    if (path !== '/v1/agent/logs') return null;
    calls += 1;
    if (calls % 3 === 0) return problem('store_unavailable');
    if (calls % 3 === 1 && Array.isArray(body)) {
      // Only the first half of the batch is stored.
      const known = server.lines.at(-1)?.seq ?? 0;
      server.lines.push(...body.slice(0, Math.ceil(body.length / 2)).filter(({ seq }) => seq > known));
      return { status: 200, body: { acknowledged_seq: server.lines.at(-1)?.seq ?? 0 } };
    }
    return null;
  });
  bench.start(bench.dir(), { server_url: server.url, command });
  await until(() => readCounts().at(-1) === last, 'the last line');
  expect(readCounts()).toEqual(upTo(last));
});

test('keeps the lines if the server asks for a pause, and retries no earlier than allowed', async () => {
  const called_ms: number[] = [];
  server.override(({ path }) => {
    if (path !== '/v1/agent/logs') return null;
    called_ms.push(systemClock.monotonicMs());
    return called_ms.length <= 2 ? problem('logs_slow_down', { retry_after_seconds: 1 }) : null;
  });
  const command = ['/bin/sh', '-c', 'for i in $(seq 500); do echo "count $i"; done; sleep 60'];
  bench.start(bench.dir(), { server_url: server.url, command });
  await until(() => readCounts().at(-1) === 500, 'the last line');
  expect(readCounts()).toEqual(upTo(500));
  const [first = 0, second = 0, third = 0] = called_ms;
  expect(second - first).toBeGreaterThan(950);
  expect(third - second).toBeGreaterThan(950);
});

/** Kills an agent that has sent forty lines, for tests that damage its spool. */
async function killAgentAfterForty() {
  const dir = bench.dir();
  const command = ['/bin/sh', '-c', 'for i in $(seq 40); do echo "count $i"; done; sleep 60'];
  const start = () => bench.start(dir, { server_url: server.url, command });
  const killed = start();
  await until(() => readCounts().at(-1) === 40, 'the last line');
  killed.kill('SIGKILL');
  await killed.exit;
  // The next agent would adopt the command, which would not print its lines again.
  await endLeftCommand(dir);
  return { spool: join(agentDirectory(dir), 'spool'), startAgain: start };
}

test('reports a lost spool, and continues with higher numbers than the server has', async () => {
  const { spool, startAgain } = await killAgentAfterForty();
  rmSync(spool, { recursive: true });
  startAgain();
  await until(() => readCounts().length === 80, 'all lines again');
  expect(readCounts()).toEqual([...upTo(40), ...upTo(40)]);
  expect(server.lines.some(({ line }) => line.includes('dropped an unknown number of lines'))).toBe(true);
});

test('a damaged spool neither reuses a number nor prevents the start', async () => {
  const { spool, startAgain } = await killAgentAfterForty();
  for (const name of readdirSync(spool))
    writeFileSync(join(spool, name), name === 'acknowledged' ? '' : '{"seq":1,\0\n');
  startAgain();
  await until(() => readCounts().length === 80, 'all lines again');
  expect(readCounts()).toEqual([...upTo(40), ...upTo(40)]);
  expect(server.lines.some(({ line }) => line.includes('older than what the server has'))).toBe(true);
});

test('drops only the line that the server refuses', async () => {
  const command = ['/bin/sh', '-c', 'for i in $(seq 40); do echo "count $i"; done; sleep 60'];
  server.override(({ path, body }) => {
    const refused = Array.isArray(body) && body.some(({ line }) => line === 'count 17');
    return path === '/v1/agent/logs' && refused ? problem('invalid_request') : null;
  });
  bench.start(bench.dir(), { server_url: server.url, command });
  await until(() => readCounts().at(-1) === 40, 'the last line');
  expect(readCounts()).toEqual(upTo(40).filter((i) => i !== 17));
  await until(() => server.lines.some(({ line }) => line.includes('refuses a log line')), 'the report of the line');
});

test('does not retry forever if the server refuses every line', async () => {
  let calls = 0;
  server.override(({ path }) => {
    if (path !== '/v1/agent/logs') return null;
    calls += 1;
    return problem('invalid_request');
  });
  bench.start(bench.dir(), { server_url: server.url, command: ['/bin/sh', '-c', 'sleep 60'] });
  await until(() => server.beats.length > 8, 'some beats');
  const before = calls;
  const beats = server.beats.length;
  await until(() => server.beats.length > beats + 3, 'more heartbeats');
  expect(calls - before).toBeLessThan(5);
});

test('behind a proxy with a lower limit, sends smaller batches', async () => {
  const command = ['/bin/sh', '-c', 'for i in $(seq 40); do echo "count $i"; done; sleep 60'];
  server.override(({ path, body }) => {
    const large = path === '/v1/agent/logs' && Array.isArray(body) && body.length > 3;
    return large ? { status: 413, body: '<h1>413 Request Entity Too Large</h1>', type: 'text/html' } : null;
  });
  bench.start(bench.dir(), { server_url: server.url, command });
  await until(() => readCounts().at(-1) === 40, 'the last line');
  expect(readCounts()).toEqual(upTo(40));
});

test('redacts secrets of the command from its output, on the machine too', async () => {
  const dir = bench.dir();
  const env = { DB_PASSWORD: 'planted "quoted" 77', COLOUR: 'chartreuse', PIN_SECRET: 'short' };
  const command = ['/bin/sh', '-c', 'echo "with $DB_PASSWORD in $COLOUR, short"; sleep 60'];
  bench.start(dir, { server_url: server.url, command, env });
  await until(() => server.lines.some(({ line }) => line === 'with [struck out] in chartreuse, short'), 'the line');
  const spool = join(agentDirectory(dir), 'spool');
  for (const name of readdirSync(spool)) expect(readFileSync(join(spool, name), 'utf8')).not.toContain('planted');
});

test('an idle agent ships a line within half a second', async () => {
  const dir = bench.dir();
  const command = ['/bin/sh', '-c', 'while [ ! -e go ]; do sleep 0.01; done; echo now; sleep 60'];
  bench.start(dir, { server_url: server.url, command });
  await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready');
  await until(() => server.lines.some(({ line }) => line.includes('command started')), 'idle');
  writeFileSync(join(dir, 'go'), '');
  await until(() => server.lines.some(({ line }) => line === 'now'), 'the line');
  const shipped = server.lines.find(({ line }) => line === 'now');
  const took_ms = systemClock.nowMs() - Date.parse(shipped?.at ?? '');
  // Ten times the limit, because the machine may be busy with other tests.
  expect(took_ms).toBeLessThan(5_000);
});
