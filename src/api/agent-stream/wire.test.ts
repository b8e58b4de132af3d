/** Tests the limits of one connection: queued frames and unread answers. */
import { expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { virtualClock } from '../../base/virtual-clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { FakeSocket } from './testing/fake-socket.ts';
import { type ConnectionEnd, openWire } from './wire.ts';

function openTestWire(handleFrame: (frame: unknown) => Promise<void> = async () => {}) {
  const socket = new FakeSocket();
  const clock = virtualClock();
  const ends: ConnectionEnd[] = [];
  const log = { error: vi.fn() };
  const wire = openWire(socket as unknown as WebSocket, {
    clock,
    log: log as never,
    correlation_id: 'c' as never,
    limits: { waiting_frames: 3, unsent_bytes: 100 },
    handleFrame,
    onEnd: (end) => ends.push(end),
  });
  return { socket, clock, ends, wire, log };
}

test('handles frames one after the other', async () => {
  const startedSeqs: number[] = [];
  const finishFrames: (() => void)[] = [];
  const { socket } = openTestWire((frame) => {
    startedSeqs.push((frame as { seq: number }).seq);
    return new Promise((resolve) => finishFrames.push(resolve));
  });
  for (const seq of [1, 2, 3]) socket.receive({ seq });
  expect(startedSeqs).toEqual([1]);
  finishFrames[0]?.();
  await vi.waitFor(() => expect(startedSeqs).toEqual([1, 2]));
});

test('answers stream_overrun and closes when frames arrive faster than they are handled', () => {
  const { socket } = openTestWire(() => new Promise(() => {}));
  for (let seq = 0; seq < 4; seq++) socket.receive({ seq });
  expect(socket.closed).toBeNull();
  socket.receive({ seq: 4 });
  expect(socket.sent).toMatchObject([{ problem: { code: 'stream_overrun' } }]);
  expect(socket.closed).toEqual([1013, 'stream_overrun']);
});

test('terminates a connection that does not read, and reports it as broken', () => {
  const { socket, wire, ends } = openTestWire();
  socket.bufferedAmount = 100;
  wire.send({ a: 1 });
  expect(ends).toEqual([]);
  socket.bufferedAmount = 101;
  wire.send({ a: 2 });
  wire.send({ a: 3 });
  expect(socket.sent).toEqual([{ a: 1 }, { a: 2 }]);
  expect(ends).toMatchObject([{ why: 'stream_overrun', broken: true }]);
});

test('answers a ping with its payload, and closes a peer that does not read the pongs', () => {
  const { socket } = openTestWire();
  for (const text of ['a', 'b', 'c']) socket.emit('ping', Buffer.from(text));
  expect(socket.pongs).toEqual(['a', 'b', 'c']);
  socket.flushPongs();
  socket.emit('ping', Buffer.from('d'));
  expect(socket.closed).toBeNull();
  for (let pings = 0; pings < 50; pings++) socket.emit('ping', Buffer.alloc(0));
  expect(socket.pongs, 'as many pongs may wait as frames').toEqual(['a', 'b', 'c', 'd', '', '']);
  expect(socket.sent).toMatchObject([{ problem: { code: 'stream_overrun' } }]);
  expect(socket.closed).toEqual([1013, 'stream_overrun']);
});

test('terminates a slow reader on its next ping and on dropSlowReader', () => {
  const pinged = openTestWire();
  pinged.socket.bufferedAmount = 101;
  pinged.socket.emit('ping', Buffer.from('a'));
  expect(pinged.ends).toMatchObject([{ why: 'stream_overrun', broken: true }]);
  const checked = openTestWire();
  checked.wire.dropSlowReader();
  expect(checked.ends).toEqual([]);
  checked.socket.bufferedAmount = 101;
  checked.wire.dropSlowReader();
  expect(checked.ends).toMatchObject([{ why: 'stream_overrun', broken: true }]);
});

test('terminates a peer that does not answer the close, and ignores its frames meanwhile', async () => {
  const handleFrame = vi.fn(async () => {});
  const { socket, wire, clock, ends } = openTestWire(handleFrame);
  wire.close('not_ready');
  socket.receive({});
  expect(handleFrame).not.toHaveBeenCalled();
  expect(ends).toEqual([]);
  await clock.advance(2_000);
  expect(ends).toMatchObject([{ why: 'not_ready', broken: false, lasted_seconds: 2 }]);
});

test('logs an unexpected error, answers internal_error and keeps the connection', async () => {
  let times = 0;
  const { socket, log } = openTestWire(async () => {
    if (++times === 1) throw new Error('secret words of an error');
    throw new ApiProblem('credential_unknown');
  });
  socket.receive({ seq: 1 });
  socket.receive({ seq: 2 });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(2));
  expect(socket.sent).toMatchObject([
    { seq: 1, problem: { code: 'internal_error' } },
    { seq: 2, problem: { code: 'credential_unknown' } },
  ]);
  expect(JSON.stringify(socket.sent)).not.toContain('secret');
  expect(log.error).toHaveBeenCalledOnce();
  expect(socket.closed, 'an unknown credential closes the stream').toEqual([4401, 'credential_unknown']);
});
