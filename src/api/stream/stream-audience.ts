/**
 * Everybody who reads this replica's stream, by what they ask. A batch is written once for each question and the same bytes go to
 * all who ask it, so a reader more costs a write, and one who is stuck holds nothing that the others do not hold as well.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { type Cursor, parseCursor, startCursor } from '../../store/evidence/evidence.ts';
import type { FeedBatch } from './feed-batch.ts';
import { audienceKey, renderer, type Wanted } from './stream-events.ts';

/** A batch as those who ask the same get it. */
export interface Piece {
  batch: FeedBatch;
  /** Its first and its last fact. */
  first: Cursor;
  last: Cursor;
  /** Null where it holds nothing that was asked for. */
  bytes: Buffer | null;
}

export interface StreamReader {
  wanted: Wanted;
  token_id: string;
  /** Null where it was opened with a bearer token. */
  session_id: string | null;
  take(piece: Piece): void;
  end(): void;
}

export interface AudienceFigures {
  readers: number;
  questions: number;
  bytes: number;
  render_seconds: number;
  write_seconds: number;
}

/** For longer than this nothing else waits while readers are written to. */
const breathAfterMs = 5;

/** The ids of tokens and sessions that ended: their open streams end with them. */
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
  const questions = new Map<string, Set<StreamReader>>();
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
      const key = audienceKey(reader.wanted);
      const same = questions.get(key) ?? new Set();
      questions.set(key, same.add(reader));
      readers++;
      return () => {
        if (!same.delete(reader)) return;
        readers--;
        if (same.size === 0 && questions.get(key) === same) questions.delete(key);
      };
    },

    /** To be awaited before the next: what comes out of order is lost on readers. */
    async show(batch: FeedBatch): Promise<void> {
      const ended = endedIn(batch);
      const pieceFor = piecesOf(batch);
      let breathedMs = clock.monotonicMs();
      for (const same of questions.values()) {
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
          if (writtenMs - breathedMs < breathAfterMs) continue;
          await pause(clock, 0);
          breathedMs = clock.monotonicMs();
        }
      }
    },

    readers: () => readers,
    figures: (): AudienceFigures => ({ readers, questions: questions.size, ...spent }),
  };
}
