/**
 * Tests an agent with a stream: heartbeats and tasks use the stream while it is open, and HTTP
 * otherwise, never both.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type AgentBench, type AgentProcess, agentBench, until } from './testing/agent-process.ts';
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

const listRequests = (path: string) => server.requests.filter((request) => request.path === path);
const countHttpBeats = () => listRequests('/v1/agent/heartbeat').length;

async function startStreaming(config: Record<string, unknown> = {}): Promise<AgentProcess> {
  const agent = bench.start(bench.dir(), { server_url: server.url, stream: true, ...config });
  await until(() => server.streamedBeats.some(({ status }) => status === 'ready'), 'ready reported by the stream');
  return agent;
}

test('heartbeats, tasks and the last report use only the stream', async () => {
  const agent = await startStreaming();
  const before = countHttpBeats();
  const seen = server.streamedBeats.length;
  const task_id = server.queue('ping', {});
  await until(() => server.results.get(task_id)?.status === 'succeeded', 'the task to be answered');
  await until(() => server.streamedBeats.length > seen + 3, 'more heartbeats');
  expect(countHttpBeats()).toBe(before);
  agent.kill('SIGTERM');
  expect((await agent.exit).code).toBe(0);
  expect(server.beats.at(-1)?.status).toBe('stopping');
  expect(server.streams).toEqual([]);
});

test('gets tasks by the stream from a server of an earlier version, which refuses `idle`', async () => {
  server.refuses_idle = true;
  await startStreaming();
  // The first task may be the answer to a poll that was sent before the stream was open.
  for (const task_id of [server.queue('ping', {}), server.queue('ping', {})])
    await until(() => server.results.get(task_id)?.status === 'succeeded', 'the task to be answered');
  expect(server.facts.filter(({ data }) => data.code === 'invalid_request')).toEqual([]);
});

test('falls back to HTTP at once if the stream breaks, and reconnects', async () => {
  await startStreaming();
  const before = countHttpBeats();
  for (const stream of server.streams) stream.terminate();
  await until(() => countHttpBeats() > before, 'a heartbeat by HTTP');
  const task_id = server.queue('ping', {});
  await until(() => server.results.get(task_id)?.status === 'succeeded', 'a task by HTTP');
  await until(() => server.streams.length === 1, 'the stream again');
  const again = server.streamedBeats.length;
  await until(() => server.streamedBeats.length > again, 'a heartbeat by the stream again');
});

test('uses HTTP if streams are refused, and reports the failure', async () => {
  server.stream_refusal = problem('not_found');
  bench.start(bench.dir(), { server_url: server.url, stream: true });
  await until(() => server.beats.some(({ status }) => status === 'ready'), 'ready reported');
  await until(() => server.facts.some(({ data }) => data.call === 'agent-stream'), 'the failure to be reported');
  expect(server.facts.find(({ data }) => data.call === 'agent-stream')?.data).toMatchObject({ code: 'not_found' });
  expect(server.streamedBeats).toEqual([]);
});

test('obeys a pushed interval before the next heartbeat was due', async () => {
  await startStreaming();
  server.interval_seconds = 3600;
  const assigned = server.streamedBeats.length;
  await until(() => server.streamedBeats.length > assigned, 'the heartbeat that gets the long interval');
  const before = server.streamedBeats.length;
  server.streams[0]?.send(JSON.stringify({ heartbeat_interval_seconds: 0.05 }));
  await until(() => server.streamedBeats.length > before, 'a heartbeat long before it was due');
});

test('ends if the stream says that the instance is fenced', async () => {
  const agent = await startStreaming();
  server.interval_seconds = 3600;
  server.streams[0]?.send(JSON.stringify({ problem: problem('instance_fenced').body }));
  expect((await agent.exit).code).toBe(0);
  expect(agent.exitFile()).toMatchObject({ code: 'instance_fenced' });
});
