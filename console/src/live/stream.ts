/**
 * The one connection that keeps the console live. Reconnects by itself and resumes where it was, says when it is stale,
 * and never decides what an event means.
 */
import { type CancelTimer, type Clock, pause } from '../../../src/base/clock.ts';
import { EventParser, type ServerEvent } from './sse.ts';

/** `paused`: the page is hidden and has given its connection back. `refused`: as many streams are open as may be. */
export type StreamState = 'connecting' | 'live' | 'stale' | 'paused' | 'refused';

export interface StreamOptions {
  address: string;
  clock: Clock;
  fetch: typeof fetch;
  onEvent: (event: ServerEvent) => void;
  onState: (state: StreamState) => void;
  /** Open again; `resumed` says that nothing was missed in between. */
  onOpen: (resumed: boolean) => void;
  /** The server knows nobody under this session any more. */
  onSignedOut: () => void;
}

const silenceMs = 15_000;
const firstWaitMs = 500;
const longestWaitMs = 5000;
const tooMany = 429;
/** Where a refusal says no time of its own. */
const refusedWaitSeconds = 15;
const longestRefusedWaitSeconds = 60;

export class LiveStream {
  readonly #options: StreamOptions;
  #cursor: string | null = null;
  #running: AbortController | null = null;
  /** Set by a refusal that says when to come again. */
  #refusedWaitMs = 0;

  constructor(options: StreamOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#running) return;
    this.#running = new AbortController();
    this.#options.onState('connecting');
    void this.#keepOpen(this.#running.signal);
  }

  stop(state: StreamState = 'paused'): void {
    this.#running?.abort();
    this.#running = null;
    this.#options.onState(state);
  }

  async #keepOpen(stopped: AbortSignal): Promise<void> {
    for (let failures = 0; !stopped.aborted; ) {
      const heard = await this.#connectOnce(stopped);
      if (stopped.aborted) return;
      failures = heard ? 0 : failures + 1;
      this.#options.onState(this.#refusedWaitMs > 0 ? 'refused' : 'stale');
      const wait = Math.max(this.#refusedWaitMs, Math.min(longestWaitMs, firstWaitMs * 2 ** failures));
      await pause(this.#options.clock, wait * (0.75 + Math.random() / 2), stopped);
    }
  }

  /** True once anything was heard. However it ends, the answer is the same: connect again. */
  async #connectOnce(stopped: AbortSignal): Promise<boolean> {
    const connection = new AbortController();
    const signal = AbortSignal.any([stopped, connection.signal]);
    const watch = new SilenceWatch(this.#options.clock, () => connection.abort());
    let heard = false;
    this.#refusedWaitMs = 0;
    try {
      const reply = await this.#options.fetch(this.#options.address, {
        headers: { accept: 'text/event-stream', ...(this.#cursor && { 'last-event-id': this.#cursor }) },
        credentials: 'same-origin',
        cache: 'no-store',
        signal,
      });
      if (!reply.ok || !reply.body) {
        this.#refused(reply);
        return false;
      }
      this.#options.onState('live');
      this.#options.onOpen(this.#cursor !== null);
      heard = true;
      const parser = new EventParser();
      for await (const text of chunks(reply.body)) {
        watch.heard();
        for (const event of parser.feed(text)) this.#take(event);
      }
      return heard;
    } catch (error) {
      // An abort is ours, and a network error is what reconnecting is for. Anything else is a defect: it must be seen,
      // and still must not leave a console that looks live and is not.
      if (!signal.aborted && !(error instanceof TypeError)) reportError(error);
      return heard;
    } finally {
      watch.end();
    }
  }

  #take(event: ServerEvent): void {
    // First, so that an event which cannot be read is not asked for again and again.
    if (event.id) this.#cursor = event.id;
    if (event.data !== '') this.#options.onEvent(event);
  }

  #refused({ status, headers }: Response): void {
    if (status === tooMany) {
      const seconds = Number(headers.get('retry-after')) || refusedWaitSeconds;
      this.#refusedWaitMs = 1000 * Math.min(seconds, longestRefusedWaitSeconds);
    }
    if (status === 401) {
      this.#running?.abort();
      this.#options.onSignedOut();
    }
    // The server no longer accepts where we were: start from its present, and read everything again.
    if (status === 400) this.#cursor = null;
  }
}

async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

class SilenceWatch {
  readonly #clock: Clock;
  readonly #onSilence: () => void;
  #cancel: CancelTimer;

  constructor(clock: Clock, onSilence: () => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
    this.#cancel = clock.after(silenceMs, onSilence);
  }

  heard(): void {
    this.#cancel();
    this.#cancel = this.#clock.after(silenceMs, this.#onSilence);
  }

  end(): void {
    this.#cancel();
  }
}
