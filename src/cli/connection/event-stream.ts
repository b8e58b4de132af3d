/** Reads server-sent events over fetch, reconnects and resumes. Does not interpret the events. */
import { createParser } from 'eventsource-parser';
import { type Clock, pause } from '../../base/clock.ts';

export interface ServerEvent {
  /** The cursor to resume after; empty if the event has none. */
  id: string;
  event: string;
  data: string;
}

export type StreamItem = { type: 'event'; event: ServerEvent } | { type: 'heartbeat' };

/**
 * Drops an event that the end of the connection cuts off, as the format demands. The server sends
 * that event again when the reader resumes.
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<StreamItem> {
  const decoder = new TextDecoder();
  const parsed: StreamItem[] = [];
  // An event without an id has the id of the event before it.
  let id = '';
  const parser = createParser({
    onEvent: (message) => {
      id = message.id ?? id;
      parsed.push({ type: 'event', event: { id, event: message.event ?? 'message', data: message.data } });
    },
    onComment: () => parsed.push({ type: 'heartbeat' }),
  });
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* parsed.splice(0);
  }
}

export type StreamChange =
  | { type: 'open' }
  | { type: 'event'; event: ServerEvent }
  /**
   * The stream is open, but no event came for a while. A proxy may hold events back, so the
   * reader should poll.
   */
  | { type: 'quiet' }
  | { type: 'closed'; reason: unknown };

export interface StreamSource {
  open(last_event_id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  clock: Clock;
  signal: AbortSignal;
}

export const quietAfterMs = 2_000;
export const reconnectAfterMs = 1_000;
/**
 * The server sends comments far more often, so a longer silence means a dead connection.
 */
export const deadAfterMs = 45_000;

/**
 * Runs until the signal fires. Reopens a closed stream after one second and resumes after the last
 * event. The reader decides when to give up.
 */
export async function* streamChanges(source: StreamSource): AsyncGenerator<StreamChange> {
  const { clock, signal } = source;
  let last_event_id = '';
  while (!signal.aborted) {
    let reason: unknown = 'the server closed the stream';
    const connection = new AbortController();
    try {
      const body = await source.open(last_event_id, AbortSignal.any([signal, connection.signal]));
      yield { type: 'open' };
      for await (const item of withQuiet(readEvents(body), clock)) {
        if (item.type === 'event' && item.event.id !== '') last_event_id = item.event.id;
        if (item.type !== 'heartbeat') yield item;
      }
    } catch (error) {
      reason = error;
    } finally {
      connection.abort();
    }
    if (signal.aborted) return;
    yield { type: 'closed', reason };
    await pause(clock, reconnectAfterMs, signal);
  }
}

/**
 * Adds a `quiet` mark after each pause between events, and fails on a connection without
 * heartbeats. A heartbeat does not delay a mark: a proxy may still hold events back.
 */
async function* withQuiet(
  items: AsyncGenerator<StreamItem>,
  clock: Clock,
): AsyncGenerator<StreamItem | { type: 'quiet' }> {
  let lastItemMs = clock.monotonicMs();
  let quietSinceMs = lastItemMs;
  let next = items.next();
  for (;;) {
    const waiting = new AbortController();
    const untilQuietMs = quietAfterMs - (clock.monotonicMs() - quietSinceMs);
    const winner = await Promise.race([next, pause(clock, untilQuietMs, waiting.signal)]).finally(() =>
      waiting.abort(),
    );
    if (winner === undefined) {
      quietSinceMs = clock.monotonicMs();
      if (quietSinceMs - lastItemMs > deadAfterMs) {
        // The pending read ends with the connection; its error no longer matters.
        next.catch(() => undefined);
        throw new Error('the stream went silent');
      }
      yield { type: 'quiet' };
      continue;
    }
    if (winner.done) return;
    lastItemMs = clock.monotonicMs();
    if (winner.value.type === 'event') quietSinceMs = lastItemMs;
    yield winner.value;
    next = items.next();
  }
}
