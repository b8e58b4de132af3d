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
    url: '/v1/stream',
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
    const scene = startScene();
    scene.serve();
    scene.stream.start();
    await scene.clock.advance(0);
    await scene.send('id: 7-1\nevent: node\ndata: a\n\n');
    scene.hangUp();
    await scene.clock.advance(10_000);
    expect(scene.events).toEqual(['a']);
    expect(scene.lastEventIds).toEqual([null, '7-1']);
    expect(scene.opened).toEqual([false, true]);
    expect(scene.states).toEqual(['connecting', 'live', 'stale', 'live']);
    scene.stream.stop();
  });

  it('becomes stale after silence, but not while keep-alives arrive', async () => {
    const scene = startScene();
    scene.serve();
    scene.stream.start();
    await scene.clock.advance(0);
    for (let beat = 0; beat < 6; beat++) {
      await scene.clock.advance(5000);
      await scene.send(': alive\n\n');
    }
    expect(scene.states).toEqual(['connecting', 'live']);
    scene.refuse(503);
    await scene.clock.advance(16_000);
    expect(scene.states.at(-1)).toBe('stale');
    scene.stream.stop();
  });

  it('backs off, but reconnects at least every few seconds', async () => {
    const scene = startScene();
    scene.refuse(503);
    scene.stream.start();
    await scene.clock.advance(60_000);
    expect(scene.lastEventIds.length).toBeGreaterThan(8);
    expect(scene.lastEventIds.length).toBeLessThan(30);
    scene.stream.stop();
  });

  it('reports refused after a 429, and waits for Retry-After', async () => {
    const scene = startScene();
    scene.refuse(429, { 'retry-after': '15' });
    scene.stream.start();
    await scene.clock.advance(60_000);
    expect(scene.states.at(-1)).toBe('refused');
    expect(scene.lastEventIds.length).toBeGreaterThan(2);
    expect(scene.lastEventIds.length).toBeLessThan(8);
    scene.serve();
    await scene.clock.advance(20_000);
    // The silence after an early retry may already have made the stream stale again.
    expect(scene.states).toContain('live');
    scene.stream.stop();
  });

  it('starts without a cursor after the server rejected it', async () => {
    const scene = startScene();
    scene.serve();
    scene.stream.start();
    await scene.clock.advance(0);
    await scene.send('id: 7-1\nevent: position\ndata: {}\n\n');
    scene.refuse(400);
    scene.hangUp();
    await scene.clock.advance(2000);
    scene.serve();
    await scene.clock.advance(10_000);
    expect(scene.lastEventIds[1]).toBe('7-1');
    expect(scene.lastEventIds.at(-1)).toBeNull();
    expect(scene.opened.at(-1)).toBe(false);
    scene.stream.stop();
  });

  it('stops and reports sign-out after a 401', async () => {
    const scene = startScene();
    scene.refuse(401);
    scene.stream.start();
    await scene.clock.advance(60_000);
    expect(scene.signedOut()).toBe(1);
    expect(scene.lastEventIds).toHaveLength(1);
  });

  it('reports nothing after it was stopped', async () => {
    const scene = startScene();
    scene.serve();
    scene.stream.start();
    await scene.clock.advance(0);
    scene.stream.stop();
    await scene.clock.advance(60_000);
    expect(scene.states).toEqual(['connecting', 'live', 'paused']);
    expect(scene.lastEventIds).toHaveLength(1);
  });
});
