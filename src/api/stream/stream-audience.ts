/**
 * The readers of this replica's stream, grouped by filter. A batch is rendered once per filter and
 * its readers share the bytes, so one more reader costs one socket write and a stuck one no extra
 * memory.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { type Cursor, parseCursor, startCursor } from '../../store/evidence/evidence.ts';
import type { FeedBatch } from './feed-batch.ts';
import { filterKey, renderer, type Wanted } from './stream-events.ts';

/** A batch as rendered for one filter. */
export interface Piece {
  batch: FeedBatch;
  /** The cursors of its first and last fact. */
  first: Cursor;
  last: Cursor;
  /** Null if the batch holds nothing for this filter. */
  bytes: Buffer | null;
}

export interface StreamReader {
  wanted: Wanted;
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

/** The ids of tokens and sessions that ended, which end their open streams. */
const endedIn = ({ facts }: FeedBatch): Set<unknown> =>
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
  const spent = { bytes: 0, render_seconds: 0, write_seconds: 0 };
  let readers = 0;

  const piecesOf = (batch: FeedBatch): ((wanted: Wanted) => Piece) => {
    const render = renderer(batch);
    const ends = { first: cursorOf(batch, 0), last: cursorOf(batch, -1) };
    return (wanted) => {
      const text = render(wanted);
      return { batch, ...ends, bytes: text === '' ? null : Buffer.from(text) };
    };
  };

  return {
    add(reader: StreamReader): () => void {
      const key = filterKey(reader.wanted);
      const same = filters.get(key) ?? new Set();
      filters.set(key, same.add(reader));
      readers++;
      return () => {
        if (!same.delete(reader)) return;
        readers--;
        if (same.size === 0 && filters.get(key) === same) filters.delete(key);
      };
    },

    /** Await it before showing the next batch: readers skip facts that arrive out of order. */
    async show(batch: FeedBatch): Promise<void> {
      const ended = endedIn(batch);
      const pieceFor = piecesOf(batch);
      let yieldedMs = clock.monotonicMs();
      for (const same of filters.values()) {
        let piece: Piece | undefined;
        for (const reader of same) {
          const beganMs = clock.monotonicMs();
          piece ??= pieceFor(reader.wanted);
          const renderedMs = clock.monotonicMs();
          if (ended.has(reader.token_id) || ended.has(reader.session_id)) reader.end();
          else reader.take(piece);
          const writtenMs = clock.monotonicMs();
          spent.bytes += piece.bytes?.length ?? 0;
          spent.render_seconds += (renderedMs - beganMs) / 1000;
          spent.write_seconds += (writtenMs - renderedMs) / 1000;
          if (writtenMs - yieldedMs < yieldAfterMs) continue;
          await pause(clock, 0);
          yieldedMs = clock.monotonicMs();
        }
      }
    },

    readers: () => readers,
    figures: (): AudienceFigures => ({ readers, filters: filters.size, ...spent }),
  };
}
