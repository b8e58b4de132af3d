/** Checks reading, reconnecting and resuming of server-sent events, on a virtual clock. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import {
  deadAfterMs,
  quietAfterMs,
  readEvents,
  type StreamChange,
  type StreamItem,
  streamChanges,
} from './event-stream.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

async function* inChunks(...chunks: (string | Uint8Array)[]) {
  for (const chunk of chunks) yield typeof chunk === 'string' ? bytes(chunk) : chunk;
}

async function collectAll<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

const event = (id: string, name: string, data: string): StreamItem => ({
  type: 'event',
  event: { id, event: name, data },
});

test('reads events, comments, multi-line data and every line ending', async () => {
  const body = inChunks(
    ': hello\n\nid: 1-1\nevent: node\ndata: {"a":\ndata: 1}\n\n',
    'data:x\r\n\r\nid:1-2\rdata: y\r\r',
  );
  expect(await collectAll(readEvents(body))).toEqual([
    { type: 'heartbeat' },
    event('1-1', 'node', '{"a":\n1}'),
    event('1-1', 'message', 'x'),
    event('1-2', 'message', 'y'),
  ]);
});

test('reads the same event wherever the network splits it', async () => {
  const whole = bytes('id: 7-1\r\nevent: node\r\ndata: Zürich ✔\r\n\r\n');
  for (let cut = 0; cut <= whole.length; cut++) {
    const items = await collectAll(readEvents(inChunks(whole.subarray(0, cut), whole.subarray(cut))));
    expect(items).toEqual([event('7-1', 'node', 'Zürich ✔')]);
  }
});

test('drops an event cut off by the end of the connection', async () => {
  expect(await collectAll(readEvents(inChunks('data: done\n\ndata: half\n')))).toEqual([event('', 'message', 'done')]);
});

/** Reads a stream into `changes`, on a clock that the test moves. */
function startReading(open: (last: string, signal: AbortSignal, attempt: number) => AsyncIterable<Uint8Array>) {
  const clock = virtualClock();
  const aborter = new AbortController();
  const changes: StreamChange[] = [];
  const resumeIds: string[] = [];
  const done = (async () => {
    const source = {
      clock,
      signal: aborter.signal,
      open: async (last: string, signal: AbortSignal) => open(last, signal, resumeIds.push(last)),
    };
    for await (const change of streamChanges(source)) changes.push(change);
  })();
  const stop = () => {
    aborter.abort();
    return done;
  };
  return { clock, changes, resumeIds, stop };
}

async function* forever(signal: AbortSignal, ...first: string[]) {
  yield* inChunks(...first);
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
}

test('resumes after the last event that arrived', async () => {
  const { clock, changes, resumeIds, stop } = startReading((_, signal, attempt) => {
    if (attempt === 1) return inChunks('id: 1-5\ndata: a\n\n');
    if (attempt === 2) throw new Error('refused');
    return forever(signal, 'id: 1-6\ndata: b\n\n');
  });
  await clock.advance(2_500);
  await stop();
  expect(resumeIds).toEqual(['', '1-5', '1-5']);
  expect(changes.map((change) => (change.type === 'event' ? change.event.data : change.type))).toEqual([
    'open',
    'a',
    'closed',
    'closed',
    'open',
    'b',
  ]);
});

test('reports silence and reconnects when the connection is dead', async () => {
  const { clock, changes, resumeIds, stop } = startReading((_, signal) => forever(signal));
  await clock.advance(quietAfterMs);
  expect(changes.map((change) => change.type)).toEqual(['open', 'quiet']);
  await clock.advance(deadAfterMs + 2 * quietAfterMs);
  await stop();
  expect(changes.some((change) => change.type === 'closed')).toBe(true);
  expect(resumeIds.length).toBeGreaterThan(1);
});

test('keeps a connection with heartbeats open, and still reports silence', async () => {
  const beats = 2 * Math.ceil(deadAfterMs / 1000);
  const { clock, changes, stop } = startReading((_, signal) =>
    (async function* () {
      for (let beat = 0; beat < beats && !signal.aborted; beat++) {
        await new Promise<void>((resolve) => clock.after(1000, resolve));
        yield bytes(': alive\n\n');
      }
    })(),
  );
  await clock.advance(1.5 * deadAfterMs);
  expect(changes.filter(({ type }) => type === 'quiet').length).toBeGreaterThan(10);
  expect(changes.filter(({ type }) => type === 'closed')).toEqual([]);
  const stopped = stop();
  await clock.advance(2 * deadAfterMs);
  await stopped;
});

test('ends on abort and leaves no timer behind', async () => {
  const { clock, stop } = startReading((_, signal) => forever(signal));
  await clock.advance(100);
  await stop();
  expect(clock.pendingTimers()).toBe(0);
});
