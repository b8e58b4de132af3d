/** Reads server-sent events over fetch, reconnects and resumes. Does not interpret the events. */
import { createParser } from 'eventsource-parser';
import { type Clock, pause } from '../../base/clock.ts';

export interface ServerEvent {
  /** The cursor to resume after; empty if the event has none. */
  id: string;
  event: string;
  data: string;
}

export type Heard = { type: 'event'; event: ServerEvent } | { type: 'heartbeat' };

/**
 * Drops an event cut off by the end of the connection, as the format demands; a resume repeats it.
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<Heard> {
  const decoder = new TextDecoder();
  const heard: Heard[] = [];
  // The id holds until another one comes.
  let id = '';
  const parser = createParser({
    onEvent: (message) => {
      id = message.id ?? id;
      heard.push({ type: 'event', event: { id, event: message.event ?? 'message', data: message.data } });
    },
    onComment: () => heard.push({ type: 'heartbeat' }),
  });
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* heard.splice(0);
  }
}

export type StreamChange =
  | { type: 'open' }
  | { type: 'event'; event: ServerEvent }
  /**
   * Connected, but no event for a while. A proxy may hold events back, so the reader should poll.
   */
  | { type: 'quiet' }
  | { type: 'closed'; because: unknown };

export interface StreamSource {
  open(last_event_id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  clock: Clock;
  signal: AbortSignal;
}

export const quietAfterMs = 2_000;
export const reconnectAfterMs = 1_000;
/**
 * The server sends a comment far more often than this, so longer silence means a dead connection.
 */
export const deadAfterMs = 45_000;

/**
 * Runs until the signal fires: opens a closed stream again after the last event seen, once a
 * second. The reader decides when to give up.
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
 * Adds `quiet` marks, and gives up a connection without heartbeats. A heartbeat shows that the
 * connection lives, not that there is no news, so it does not delay a mark.
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
        // The pending read ends with the connection; its error no longer matters.
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
