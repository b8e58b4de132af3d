/**
 * The readers of this replica's stream, grouped by filter. A batch is rendered once per filter, and
 * all readers of the filter share the bytes. One more reader costs one socket write, and a reader
 * that is stuck costs no extra memory.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { type Cursor, parseCursor, startCursor } from '../../store/evidence/commit-order.ts';
import type { FeedBatch } from './feed-batch.ts';
import { createRenderer, filterKey, type StreamFilter } from './stream-events.ts';

/** A batch rendered for one filter. */
export interface Piece {
  batch: FeedBatch;
  /** The cursors of the first and last fact of the batch. */
  first: Cursor;
  last: Cursor;
  /** Null if the batch holds nothing for this filter. */
  bytes: Buffer | null;
}

export interface StreamReader {
  filter: StreamFilter;
  token_id: string;
  /** Null for a bearer token. */
  session_id: string | null;
  take(piece: Piece): void;
  end(): void;
}

export interface AudienceFigures {
  readers: number;
  filters: number;
  bytes: number;
  render_seconds: number;
  write_seconds: number;
}

/** Yields to other work after writing to readers for this long. */
const yieldAfterMs = 5;

/** Returns the ids of tokens and sessions that ended. Their open streams must end too. */
const endedIdsIn = ({ facts }: FeedBatch): Set<unknown> =>
  new Set(
    facts.flatMap(({ kind, data }) => {
      if (kind === 'token.revoked') return [data.token_id];
      return kind === 'session.ended' ? [data.session_id] : [];
    }),
  );

const cursorOf = (batch: FeedBatch, place: 0 | -1): Cursor =>
  parseCursor(batch.facts.at(place)?.cursor ?? '') ?? startCursor;

export function createAudience(clock: Clock) {
  const filters = new Map<string, Set<StreamReader>>();
  const totals = { bytes: 0, render_seconds: 0, write_seconds: 0 };
  let readers = 0;

  const piecesOf = (batch: FeedBatch): ((filter: StreamFilter) => Piece) => {
    const render = createRenderer(batch);
    const bounds = { first: cursorOf(batch, 0), last: cursorOf(batch, -1) };
    return (filter) => {
      const text = render(filter);
      return { batch, ...bounds, bytes: text === '' ? null : Buffer.from(text) };
    };
  };

  return {
    add(reader: StreamReader): () => void {
      const key = filterKey(reader.filter);
      const sameFilter = filters.get(key) ?? new Set();
      filters.set(key, sameFilter.add(reader));
      readers++;
      return () => {
        if (!sameFilter.delete(reader)) return;
        readers--;
        if (sameFilter.size === 0 && filters.get(key) === sameFilter) filters.delete(key);
      };
    },

    /** Await this before the next batch: readers skip facts that arrive out of order. */
    async send(batch: FeedBatch): Promise<void> {
      const endedIds = endedIdsIn(batch);
      const pieceFor = piecesOf(batch);
      let yieldedMs = clock.monotonicMs();
      for (const sameFilter of filters.values()) {
        let piece: Piece | undefined;
        for (const reader of sameFilter) {
          const startedMs = clock.monotonicMs();
          piece ??= pieceFor(reader.filter);
          const renderedMs = clock.monotonicMs();
          if (endedIds.has(reader.token_id) || endedIds.has(reader.session_id)) reader.end();
          else reader.take(piece);
          const writtenMs = clock.monotonicMs();
          totals.bytes += piece.bytes?.length ?? 0;
          totals.render_seconds += (renderedMs - startedMs) / 1000;
          totals.write_seconds += (writtenMs - renderedMs) / 1000;
          if (writtenMs - yieldedMs < yieldAfterMs) continue;
          await pause(clock, 0);
          yieldedMs = clock.monotonicMs();
        }
      }
    },

    /** Ends all streams. Their readers resume. */
    endAll(): void {
      for (const sameFilter of filters.values()) for (const reader of sameFilter) reader.end();
    },

    readers: () => readers,
    figures: (): AudienceFigures => ({ readers, filters: filters.size, ...totals }),
  };
}
