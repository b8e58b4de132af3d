/** What one connection may cost: frames that wait, and answers that nobody reads. */
import { expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { virtualClock } from '../../base/virtual-clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { FakeSocket } from './testing/fake-socket.ts';
import { type Ending, openWire } from './wire.ts';

function opened(take: (frame: unknown) => Promise<void> = async () => {}) {
  const socket = new FakeSocket();
  const clock = virtualClock();
  const endings: Ending[] = [];
  const log = { error: vi.fn() };
  const wire = openWire(socket as unknown as WebSocket, {
    clock,
    log: log as never,
    correlation_id: 'c' as never,
    limits: { waiting_frames: 3, unsent_bytes: 100 },
    take,
    onEnd: (ending) => endings.push(ending),
  });
  return { socket, clock, endings, wire, log };
}

test('frames are served one after the other', async () => {
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const { socket } = opened((frame) => {
    begun.push((frame as { seq: number }).seq);
    return new Promise((resolve) => ends.push(resolve));
  });
  for (const seq of [1, 2, 3]) socket.hear({ seq });
  expect(begun).toEqual([1]);
  ends[0]?.();
  await vi.waitFor(() => expect(begun).toEqual([1, 2]));
});

test('whoever sends more than is served is told and closed', () => {
  const { socket } = opened(() => new Promise(() => {}));
  for (let seq = 0; seq < 4; seq++) socket.hear({ seq });
  expect(socket.closed).toBeNull();
  socket.hear({ seq: 4 });
  expect(socket.sent).toMatchObject([{ problem: { code: 'stream_overrun' } }]);
  expect(socket.closed).toEqual([1013, 'stream_overrun']);
});

test('whoever does not read is cut off, and that is a broken connection', () => {
  const { socket, wire, endings } = opened();
  socket.bufferedAmount = 100;
  wire.send({ a: 1 });
  expect(endings).toEqual([]);
  socket.bufferedAmount = 101;
  wire.send({ a: 2 });
  wire.send({ a: 3 });
  expect(socket.sent).toEqual([{ a: 1 }, { a: 2 }]);
  expect(endings).toMatchObject([{ why: 'stream_overrun', broken: true }]);
});

test('a ping is answered with what it carried, and whoever does not read the answers is let go', () => {
  const { socket } = opened();
  for (const text of ['a', 'b', 'c']) socket.emit('ping', Buffer.from(text));
  expect(socket.pongs).toEqual(['a', 'b', 'c']);
  socket.flushPongs();
  socket.emit('ping', Buffer.from('d'));
  expect(socket.closed).toBeNull();
  for (let pings = 0; pings < 50; pings++) socket.emit('ping', Buffer.alloc(0));
  expect(socket.pongs, 'no more wait than frames may').toEqual(['a', 'b', 'c', 'd', '', '']);
  expect(socket.sent).toMatchObject([{ problem: { code: 'stream_overrun' } }]);
  expect(socket.closed).toEqual([1013, 'stream_overrun']);
});

test('unread bytes count with a ping, and whenever somebody looks', () => {
  const pinged = opened();
  pinged.socket.bufferedAmount = 101;
  pinged.socket.emit('ping', Buffer.from('a'));
  expect(pinged.endings).toMatchObject([{ why: 'stream_overrun', broken: true }]);
  const looked = opened();
  looked.wire.letGoUnread();
  expect(looked.endings).toEqual([]);
  looked.socket.bufferedAmount = 101;
  looked.wire.letGoUnread();
  expect(looked.endings).toMatchObject([{ why: 'stream_overrun', broken: true }]);
});

test('whoever does not answer a goodbye is cut off, and what it sends meanwhile is nothing', async () => {
  const taken = vi.fn(async () => {});
  const { socket, wire, clock, endings } = opened(taken);
  wire.close('not_ready');
  socket.hear({});
  expect(taken).not.toHaveBeenCalled();
  expect(endings).toEqual([]);
  await clock.advance(2_000);
  expect(endings).toMatchObject([{ why: 'not_ready', broken: false, lasted_seconds: 2 }]);
});

test('a defect is told in one sentence and logged, and the connection goes on', async () => {
  let times = 0;
  const { socket, log } = opened(async () => {
    if (++times === 1) throw new Error('secret words of a defect');
    throw new ApiProblem('credential_unknown');
  });
  socket.hear({ seq: 1 });
  socket.hear({ seq: 2 });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(2));
  expect(socket.sent).toMatchObject([
    { seq: 1, problem: { code: 'internal_error' } },
    { seq: 2, problem: { code: 'credential_unknown' } },
  ]);
  expect(JSON.stringify(socket.sent)).not.toContain('secret');
  expect(log.error).toHaveBeenCalledOnce();
  expect(socket.closed, 'a credential that is void ends it').toEqual([4401, 'credential_unknown']);
});
