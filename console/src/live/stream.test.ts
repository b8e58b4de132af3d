import { describe, expect, it } from 'vitest';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import { LiveStream, type StreamState } from './stream.ts';

/** A live stream and a server whose replies the test controls. */
function startScene() {
  const clock = virtualClock();
  const states: StreamState[] = [];
  const events: string[] = [];
  const lastEventIds: (string | null)[] = [];
  const opened: boolean[] = [];
  let signedOut = 0;
  let answer: () => Response = () => new Response(null, { status: 503 });
  const stream = new LiveStream({
    address: '/v1/stream',
    clock,
    fetch: async (_, init) => {
      lastEventIds.push(new Headers(init?.headers).get('last-event-id'));
      const reply = answer();
      init?.signal?.addEventListener('abort', () => hangUp());
      return reply;
    },
    onEvent: (event) => events.push(event.data),
    onState: (state) => states.push(state),
    onOpen: (resumed) => opened.push(resumed),
    onSignedOut: () => signedOut++,
  });

  let line: ReadableStreamDefaultController<Uint8Array> | undefined;
  const hangUp = () => {
    line?.error(new TypeError('network error'));
    line = undefined;
  };
  const serve = () => {
    const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      line = controller;
    };
    answer = () => new Response(new ReadableStream({ start }));
  };
  const refuse = (status: number, headers: Record<string, string> = {}) => {
    answer = () => new Response(null, { status, headers });
  };
  const send = async (text: string) => {
    line?.enqueue(new TextEncoder().encode(text));
    await clock.advance(0);
  };
  return {
    clock,
    stream,
    states,
    events,
    lastEventIds,
    opened,
    serve,
    refuse,
    send,
    hangUp,
    signedOut: () => signedOut,
  };
}

describe('the live stream', () => {
  it('resumes after its last event when the connection breaks', async () => {
    const at = startScene();
    at.serve();
    at.stream.start();
    await at.clock.advance(0);
    await at.send('id: 7-1\nevent: node\ndata: a\n\n');
    at.hangUp();
    await at.clock.advance(10_000);
    expect(at.events).toEqual(['a']);
    expect(at.lastEventIds).toEqual([null, '7-1']);
    expect(at.opened).toEqual([false, true]);
    expect(at.states).toEqual(['connecting', 'live', 'stale', 'live']);
    at.stream.stop();
  });

  it('becomes stale after silence, but not while keep-alives arrive', async () => {
    const at = startScene();
    at.serve();
    at.stream.start();
    await at.clock.advance(0);
    for (let beat = 0; beat < 6; beat++) {
      await at.clock.advance(5000);
      await at.send(': alive\n\n');
    }
    expect(at.states).toEqual(['connecting', 'live']);
    at.refuse(503);
    await at.clock.advance(16_000);
    expect(at.states.at(-1)).toBe('stale');
    at.stream.stop();
  });

  it('backs off, but reconnects at least every few seconds', async () => {
    const at = startScene();
    at.refuse(503);
    at.stream.start();
    await at.clock.advance(60_000);
    expect(at.lastEventIds.length).toBeGreaterThan(8);
    expect(at.lastEventIds.length).toBeLessThan(30);
    at.stream.stop();
  });

  it('reports refused after a 429, and waits for Retry-After', async () => {
    const at = startScene();
    at.refuse(429, { 'retry-after': '15' });
    at.stream.start();
    await at.clock.advance(60_000);
    expect(at.states.at(-1)).toBe('refused');
    expect(at.lastEventIds.length).toBeGreaterThan(2);
    expect(at.lastEventIds.length).toBeLessThan(8);
    at.serve();
    await at.clock.advance(20_000);
    // The silence after an early retry may already have made the stream stale again.
    expect(at.states).toContain('live');
    at.stream.stop();
  });

  it('starts without a cursor after the server rejected it', async () => {
    const at = startScene();
    at.serve();
    at.stream.start();
    await at.clock.advance(0);
    await at.send('id: 7-1\nevent: position\ndata: {}\n\n');
    at.refuse(400);
    at.hangUp();
    await at.clock.advance(2000);
    at.serve();
    await at.clock.advance(10_000);
    expect(at.lastEventIds[1]).toBe('7-1');
    expect(at.lastEventIds.at(-1)).toBeNull();
    expect(at.opened.at(-1)).toBe(false);
    at.stream.stop();
  });

  it('stops and reports sign-out after a 401', async () => {
    const at = startScene();
    at.refuse(401);
    at.stream.start();
    await at.clock.advance(60_000);
    expect(at.signedOut()).toBe(1);
    expect(at.lastEventIds).toHaveLength(1);
  });

  it('reports nothing after it was stopped', async () => {
    const at = startScene();
    at.serve();
    at.stream.start();
    await at.clock.advance(0);
    at.stream.stop();
    await at.clock.advance(60_000);
    expect(at.states).toEqual(['connecting', 'live', 'paused']);
    expect(at.lastEventIds).toHaveLength(1);
  });
});
