/** Tests which frames the server sends unprompted on an agent's stream, and when it closes one. */
import { expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { ApiServices } from '../services.ts';
import { serveAgent } from './serve-agent.ts';
import { createAgentStreams } from './streams.ts';
import { FakeSocket } from './testing/fake-socket.ts';

const session = {
  node_id: 'node_1',
  node_instance_id: 'inst_1',
  pool: 'metal',
  node_status: 'ready',
  reported_status: 'ready',
  verdict_rule: null,
  boot_stage: null,
  interval_seconds: 10,
  stored_interval_ms: 3_600_000,
  stale_after_seconds: 30,
  tasks_waiting: 0,
  fence: { kind: 'none' },
  expires_seconds: 0,
};

function openAgentStream(nodes: number) {
  const clock = virtualClock();
  const tail = { subscribe: () => () => {} };
  const streams = createAgentStreams({
    db: {} as never,
    writeLimits: { tryCharge: () => true },
    clock,
    tail: tail as never,
    onError: () => {},
  });
  const load = { nodes, replicas: 1, beat_rate: 100 };
  const strain = { stretch: 1 };
  const services = {
    clock,
    agentStreams: streams,
    log: {},
    sessions: { getCached: () => session },
    beats: { add: vi.fn(), flushedThroughMs: () => 0 },
    fleetLoad: () => load,
    credential_age: { isExpired: () => false },
    deferred: { size: 0, forget: () => {} },
    writeLimits: { tryReserve: () => () => {}, database: (db: unknown) => db },
    overload: { shedding: () => ({ beats: strain.stretch > 1, reads: false, stretch: strain.stretch }) },
  } as unknown as ApiServices;
  const socket = new FakeSocket();
  const caller = { session, credential: 'swc_1', correlation_id: 'c' };
  serveAgent(socket as unknown as WebSocket, caller as never, services);
  return { clock, socket, load, strain, streams };
}

test('sends a much shorter interval at once, a longer one with the next answer', async () => {
  const { clock, socket, load } = openAgentStream(6_000);
  socket.receive({ seq: 1 });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(1));
  expect(socket.sent[0]).toMatchObject({ seq: 1, node_status: 'ready' });
  expect(socket.sent[0]?.heartbeat_interval_seconds).toBeGreaterThan(50);
  load.nodes = 5_000;
  await clock.advance(6_000);
  expect(socket.sent, 'a slightly shorter interval is not sent').toHaveLength(1);
  load.nodes = 2_000;
  await clock.advance(6_000);
  expect(socket.sent[1]).toEqual({ heartbeat_interval_seconds: 20 });
  load.nodes = 9_000;
  await clock.advance(12_000);
  expect(socket.sent, 'a longer interval is not sent').toHaveLength(2);
});

test('shortens the interval after an overload only with the next answer', async () => {
  const { clock, socket, strain } = openAgentStream(6_000);
  strain.stretch = 4;
  socket.receive({ seq: 1 });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(1));
  expect(socket.sent[0]?.heartbeat_interval_seconds).toBeGreaterThan(200);
  strain.stretch = 1;
  await clock.advance(60_000);
  expect(socket.sent).toHaveLength(1);
  expect(socket.closed, 'silence is allowed for the assigned interval').toBeNull();
});

test('drops an agent that does not read, without waiting for a message from it', async () => {
  const { clock, socket, streams } = openAgentStream(1);
  socket.bufferedAmount = 300 * 1024;
  await clock.advance(6_000);
  expect(socket.readyState, 'terminated').toBe(3);
  expect(streams.figures()).toEqual({ agents: 0, relays: 0 });
  await streams.stop();
});

test('closes a stream after three silent intervals, and keeps one with heartbeats', async () => {
  const { clock, socket, streams } = openAgentStream(1);
  for (let beats = 0; beats < 6; beats++) {
    socket.receive({});
    await clock.advance(10_000);
  }
  expect(socket.closed).toBeNull();
  expect(streams.figures()).toEqual({ agents: 1, relays: 0 });
  await clock.advance(36_000);
  expect(socket.closed).toEqual([4408, 'stream_silent']);
  expect(streams.figures()).toEqual({ agents: 0, relays: 0 });
  await streams.stop();
});
