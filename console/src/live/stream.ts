/**
 * The one connection that keeps the console live. It reconnects, resumes and reports its state; it
 * does not interpret events.
 */
import { type CancelTimer, type Clock, pause } from '../../../src/base/clock.ts';
import { EventParser, type ServerEvent } from './sse.ts';

/** `paused`: the tab is hidden. `refused`: the limit of open streams is reached. */
export type StreamState = 'connecting' | 'live' | 'stale' | 'paused' | 'refused';

export interface StreamOptions {
  address: string;
  clock: Clock;
  fetch: typeof fetch;
  onEvent: (event: ServerEvent) => void;
  onState: (state: StreamState) => void;
  /** After each connect; `resumed` means that nothing was missed. */
  onOpen: (resumed: boolean) => void;
  /** The session has ended. */
  onSignedOut: () => void;
}

const silenceMs = 15_000;
const firstWaitMs = 500;
const maxWaitMs = 5000;
const tooMany = 429;
/** When the server sends no Retry-After. */
const refusedWaitSeconds = 15;
const maxRefusedWaitSeconds = 60;

export class LiveStream {
  readonly #options: StreamOptions;
  #cursor: string | null = null;
  #running: AbortController | null = null;
  /** Set from the Retry-After of a refusal. */
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
      const wait = Math.max(this.#refusedWaitMs, Math.min(maxWaitMs, firstWaitMs * 2 ** failures));
      await pause(this.#options.clock, wait * (0.75 + Math.random() / 2), stopped);
    }
  }

  /** True once anything arrived. Whatever ends the connection, the caller reconnects. */
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
      // Aborts are ours, and network errors lead to a reconnect. Anything else is a bug: report it,
      // and still reconnect so that the console does not look live when it is not.
      if (!signal.aborted && !(error instanceof TypeError)) reportError(error);
      return heard;
    } finally {
      watch.end();
    }
  }

  #take(event: ServerEvent): void {
    // First, so that an unreadable event is not requested again and again.
    if (event.id) this.#cursor = event.id;
    if (event.data !== '') this.#options.onEvent(event);
  }

  #refused({ status, headers }: Response): void {
    if (status === tooMany) {
      const seconds = Number(headers.get('retry-after')) || refusedWaitSeconds;
      this.#refusedWaitMs = 1000 * Math.min(seconds, maxRefusedWaitSeconds);
    }
    if (status === 401) {
      this.#running?.abort();
      this.#options.onSignedOut();
    }
    // The server no longer accepts the cursor: start from now and read everything again.
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
