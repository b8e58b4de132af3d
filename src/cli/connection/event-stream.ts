/**
 * Server-sent events over fetch: reading them, and keeping them coming. Owns reconnecting and resuming; knows nothing of
 * what the events mean.
 */
import { type Clock, pause } from '../../base/clock.ts';

export interface ServerEvent {
  /** The cursor to resume behind; empty when the event carried none. */
  id: string;
  event: string;
  data: string;
}

export type Heard = { type: 'event'; event: ServerEvent } | { type: 'heartbeat' };

/** Cuts a body into lines as the format defines them: ended by LF, CR or CRLF, possibly split anywhere in between. */
async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  let afterReturn = false;
  for await (const chunk of body) {
    const text = decoder.decode(chunk, { stream: true });
    if (text === '') continue;
    // The LF of a CRLF that was cut in two belongs to the line that has already been handed out.
    const fresh = afterReturn && text.startsWith('\n') ? text.slice(1) : text;
    afterReturn = text.endsWith('\r');
    const lines = (rest + fresh).split(/\r\n|\r|\n/);
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

/** An event that the connection's end cut off is dropped, as the format demands: resuming brings it again. */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<Heard> {
  let id = '';
  let event = '';
  let data: string[] = [];
  for await (const line of linesOf(body)) {
    if (line === '') {
      if (data.length > 0) yield { type: 'event', event: { id, event: event || 'message', data: data.join('\n') } };
      event = '';
      data = [];
      continue;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      yield { type: 'heartbeat' };
      continue;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
  }
}

export type StreamChange =
  | { type: 'open' }
  | { type: 'event'; event: ServerEvent }
  /** Connected, but nothing new for a while: a proxy may be holding events back, so the reader should look for itself. */
  | { type: 'quiet' }
  | { type: 'closed'; because: unknown };

export interface StreamSource {
  open(last_event_id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  clock: Clock;
  signal: AbortSignal;
}

export const quietAfterMs = 2_000;
export const reconnectAfterMs = 1_000;
/** The server sends a comment far more often than this; silence beyond it means that the connection is dead. */
export const deadAfterMs = 45_000;

/**
 * Never ends by itself: a closed stream is opened again behind the last event seen, once a second, until the signal
 * fires. The reader decides when it has waited long enough.
 */
export async function* streamChanges(source: StreamSource): AsyncGenerator<StreamChange> {
  const { clock, signal } = source;
  let last_event_id = '';
  while (!signal.aborted) {
    let because: unknown = 'the server closed the stream';
    const connection = new AbortController();
    try {
      const body = await source.open(last_event_id, AbortSignal.any([signal, connection.signal]));
      yield { type: 'open' };
      for await (const heard of withQuiet(readEvents(body), clock)) {
        if (heard.type === 'event' && heard.event.id !== '') last_event_id = heard.event.id;
        if (heard.type !== 'heartbeat') yield heard;
      }
    } catch (error) {
      because = error;
    } finally {
      connection.abort();
    }
    if (signal.aborted) return;
    yield { type: 'closed', because };
    await pause(clock, reconnectAfterMs, signal);
  }
}

/**
 * Adds `quiet` marks to what is heard, and gives up on a connection on which not even a heartbeat comes. A heartbeat says
 * that the connection lives, not that there is nothing new, so it does not put a mark off.
 */
async function* withQuiet(heard: AsyncGenerator<Heard>, clock: Clock): AsyncGenerator<Heard | { type: 'quiet' }> {
  let lastHeardMs = clock.monotonicMs();
  let lastNewsMs = lastHeardMs;
  let next = heard.next();
  for (;;) {
    const waiting = new AbortController();
    const leftMs = quietAfterMs - (clock.monotonicMs() - lastNewsMs);
    const winner = await Promise.race([next, pause(clock, leftMs, waiting.signal)]).finally(() => waiting.abort());
    if (winner === undefined) {
      lastNewsMs = clock.monotonicMs();
      if (lastNewsMs - lastHeardMs > deadAfterMs) {
        // The read that is still open ends with the connection; nobody waits for it any more.
        next.catch(() => undefined);
        throw new Error('the stream went silent');
      }
      yield { type: 'quiet' };
      continue;
    }
    if (winner.done) return;
    lastHeardMs = clock.monotonicMs();
    if (winner.value.type === 'event') lastNewsMs = lastHeardMs;
    yield winner.value;
    next = heard.next();
  }
}
