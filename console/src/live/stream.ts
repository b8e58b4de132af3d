/**
 * The only stream connection of the console. It reconnects, resumes and reports its state, but does
 * not interpret events.
 */
import { type CancelTimer, type Clock, pause } from '../../../src/base/clock.ts';
import { EventParser, type ServerEvent } from './sse.ts';

/** `paused`: the tab is hidden. `refused`: the limit of open streams is reached. */
export type StreamState = 'connecting' | 'live' | 'stale' | 'paused' | 'refused';

export interface StreamOptions {
  url: string;
  clock: Clock;
  fetch: typeof fetch;
  onEvent: (event: ServerEvent) => void;
  onState: (state: StreamState) => void;
  /** Called after each connect; `resumed` means that no event was missed. */
  onOpen: (resumed: boolean) => void;
  /** The session has ended. */
  onSignedOut: () => void;
}

const silenceMs = 15_000;
const firstWaitMs = 500;
const maxWaitMs = 5000;
const tooManyRequests = 429;
/** Used when the server sends no Retry-After. */
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
      const wasConnected = await this.#connectOnce(stopped);
      if (stopped.aborted) return;
      failures = wasConnected ? 0 : failures + 1;
      this.#options.onState(this.#refusedWaitMs > 0 ? 'refused' : 'stale');
      const wait = Math.max(this.#refusedWaitMs, Math.min(maxWaitMs, firstWaitMs * 2 ** failures));
      await pause(this.#options.clock, wait * (0.75 + Math.random() / 2), stopped);
    }
  }

  /** Returns whether the server accepted the connection. The caller reconnects in any case. */
  async #connectOnce(stopped: AbortSignal): Promise<boolean> {
    const connection = new AbortController();
    const signal = AbortSignal.any([stopped, connection.signal]);
    const watch = new SilenceWatch(this.#options.clock, () => connection.abort());
    let wasConnected = false;
    this.#refusedWaitMs = 0;
    try {
      const reply = await this.#options.fetch(this.#options.url, {
        headers: { accept: 'text/event-stream', ...(this.#cursor && { 'last-event-id': this.#cursor }) },
        credentials: 'same-origin',
        cache: 'no-store',
        signal,
      });
      if (!reply.ok || !reply.body) {
        this.#handleRefusal(reply);
        return false;
      }
      this.#options.onState('live');
      this.#options.onOpen(this.#cursor !== null);
      wasConnected = true;
      const parser = new EventParser();
      for await (const text of chunks(reply.body)) {
        watch.restart();
        for (const event of parser.feed(text)) this.#receive(event);
      }
      return wasConnected;
    } catch (error) {
      // This class aborts on purpose, and a network error (TypeError) needs only a reconnect.
      // Anything else is a bug: report it and reconnect, so that the console does not look live.
      if (!signal.aborted && !(error instanceof TypeError)) reportError(error);
      return wasConnected;
    } finally {
      watch.end();
    }
  }

  #receive(event: ServerEvent): void {
    // Move the cursor first, so that an event that cannot be read is not requested forever.
    if (event.id) this.#cursor = event.id;
    if (event.data !== '') this.#options.onEvent(event);
  }

  #handleRefusal({ status, headers }: Response): void {
    if (status === tooManyRequests) {
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

  restart(): void {
    this.#cancel();
    this.#cancel = this.#clock.after(silenceMs, this.#onSilence);
  }

  end(): void {
    this.#cancel();
  }
}
