/**
 * `GET /v1/stream`: sends live changes as server-sent events. A reader resumes by cursor and gets
 * every fact exactly once.
 */
import type { Writable } from 'node:stream';
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import {
  type Cursor,
  formatCursor,
  isAfter,
  parseCursor,
  resumeFrom,
  startCursor,
} from '../../store/evidence/commit-order.ts';
import { readVisibleAfter, type VisiblePage } from '../../store/evidence/evidence.ts';
import { isSessionOpen } from '../../store/rows/sign-in/sessions.ts';
import type { Person } from '../http/callers.ts';
import type { ApiServices, Handler } from '../services.ts';
import { idleCutoff } from '../sign-in/session-cookie.ts';
import type { FeedBatch } from './feed-batch.ts';
import type { Piece } from './stream-audience.ts';
import { createRenderer, positionEvent, resetEvent, type StreamFilter } from './stream-events.ts';

const keepAliveMs = 5_000;
/** How often an open stream checks whether its session has timed out; a timeout leaves no fact. */
const sessionCheckMs = 60_000;
const catchUpBatch = 500;
/** A reader that is further behind is dropped and resumes from its cursor. */
const maxUnsentBytes = 4 * 1024 * 1024;
/** A reader that reads nothing for this many keep-alives is dropped too. */
const maxStalls = 12;
const maxCatchUpMs = 60_000;

const waitForDrain = (out: Writable): Promise<void> =>
  new Promise((resolve) => {
    // The close event may have passed already.
    if (out.destroyed) resolve();
    const end = () => {
      out.off('drain', end).off('close', end);
      resolve();
    };
    out.on('drain', end).on('close', end);
  });

/**
 * Serves one reader. Until the reader has caught up, facts are read from the store at its pace, and
 * live batches only set `hasMissedFacts`. Then it gets the live batches. No fact is sent twice.
 */
function openReader(out: Writable, person: Person, start: Cursor, filter: StreamFilter, services: ApiServices) {
  const { feed, clock } = services;
  /** Facts up to this cursor were sent, or skipped because they do not match the filter. */
  let reachedCursor = start;
  /** The last cursor that the reader was sent, from which it would resume. */
  let sentCursor = start;
  let isLive = false;
  let hasMissedFacts = false;
  let stalls = 0;

  const drop = () => {
    feed.noteDropped();
    out.destroy();
  };

  const renderAndSend = (batch: FeedBatch, last: Cursor): boolean => {
    reachedCursor = last;
    const text = createRenderer(batch)(filter);
    if (text === '') return true;
    sentCursor = last;
    return out.write(text);
  };

  const takeFacts = ({ batch, bytes, first, last }: Piece) => {
    if (isAfter(first, reachedCursor)) {
      reachedCursor = last;
      if (!bytes) return;
      sentCursor = last;
      out.write(bytes);
    } else if (isAfter(last, reachedCursor)) {
      const facts = batch.facts.filter((fact) => isAfter(parseCursor(fact.cursor) ?? reachedCursor, reachedCursor));
      renderAndSend({ ...batch, facts }, last);
    }
  };

  /** Sends the position after skipped facts too, so that a resume does not read them again. */
  const sendPosition = () => {
    if (sentCursor !== reachedCursor) out.write(positionEvent(formatCursor(reachedCursor)));
    sentCursor = reachedCursor;
  };

  const removeReader = feed.add({
    filter,
    token_id: person.token_id,
    session_id: person.session_id,
    end: () => out.destroy(),
    take(piece) {
      if (!isLive) hasMissedFacts ||= piece.bytes !== null && !piece.batch.progressedIds;
      else if (out.writableLength > maxUnsentBytes) drop();
      else if (!piece.batch.progressedIds) takeFacts(piece);
      // A reader that is behind skips progress ticks; the next tick repeats them.
      else if (piece.bytes && !out.writableNeedDrain) out.write(piece.bytes);
    },
  });

  let sessionCheckedMs = clock.monotonicMs();
  const checkSession = async () => {
    const { session_id } = person;
    const everyMs = Math.min(sessionCheckMs, services.settings.session_idle_seconds * 1000);
    if (session_id === null || clock.monotonicMs() - sessionCheckedMs < everyMs) return;
    sessionCheckedMs = clock.monotonicMs();
    if (!(await isSessionOpen(services.db, session_id, idleCutoff(now(clock), services)))) out.destroy();
  };

  /** Ends streams that are stuck or no longer permitted, and sends keep-alives on the others. */
  const keepAlive = () => {
    stalls = out.writableNeedDrain ? stalls + 1 : 0;
    if (stalls > maxStalls) drop();
    else if (person.expires_at && person.expires_at <= now(clock)) out.destroy();
    else {
      sendPosition();
      out.write(': alive\n\n');
      checkSession().catch((error) => services.log.warn({ error }, 'could not check the session of a stream'));
      cancel = clock.after(keepAliveMs, keepAlive);
    }
  };
  let cancel = clock.after(keepAliveMs, keepAlive);
  out.on('close', () => {
    removeReader();
    cancel();
  });

  return {
    /** For a reader that starts at the feed's position, and so has nothing to catch up. */
    startLive() {
      isLive = true;
    },
    /**
     * `firstPage` was read before the reader was added to the feed, so at least one more is read.
     */
    async catchUp(firstPage: VisiblePage) {
      let page = firstPage;
      do {
        const last = parseCursor(page.items.at(-1)?.cursor ?? '');
        if (last && !renderAndSend(await feed.join(page.items), last)) await waitForDrain(out);
        reachedCursor = page.reached;
        if (page !== firstPage && !page.more && !hasMissedFacts) break;
        hasMissedFacts = false;
        page = await readVisibleAfter(services.db, reachedCursor, filter, catchUpBatch);
      } while (!out.destroyed);
      if (out.destroyed) return;
      sendPosition();
      isLive = true;
    },
  };
}

export const streamOpen: Handler<'stream-open'> = async ({ query, person, request, reply }, services) => {
  const filter: StreamFilter = {
    ...query,
    topics: new Set((query?.topics ?? 'nodes,allocations,operations,evidence').split(',')),
    visibility: person().visibility,
  };
  const requestedCursor = String(request.headers['last-event-id'] ?? query?.cursor ?? '');
  const resumeCursor = requestedCursor === '' ? undefined : parseCursor(requestedCursor);
  if (requestedCursor !== '' && !resumeCursor) throw new ApiProblem('invalid_cursor');
  services.places.streams.hold(person(), reply);
  const resumePoint = resumeCursor && (await resumeFrom(services.db, resumeCursor));
  const start = resumePoint?.cursor ?? parseCursor(services.feed.position()) ?? startCursor;
  // The first page is charged but needs no place, since after a restart all readers resume.
  if (resumeCursor) services.rates.chargePage(request, catchUpBatch);
  const firstPage = resumePoint && (await readVisibleAfter(services.db, start, filter, catchUpBatch));
  const endCatchUp = firstPage?.more ? services.places.catch_ups.take(person()) : () => {};

  reply.hijack();
  const response = reply.raw;
  if (response.destroyed) {
    // The caller disconnected while the page was read; the close event has passed.
    endCatchUp();
    return undefined;
  }
  // The stream ends with its connection, so it needs no chunked encoding and readers can share
  // bytes.
  response.removeHeader('transfer-encoding');
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    connection: 'close',
    'x-accel-buffering': 'no',
    'x-content-type-options': 'nosniff',
    'x-correlation-id': request.correlation_id,
  });
  response.write(`retry: 1000\n${resumePoint?.lost ? resetEvent() : ''}${positionEvent(formatCursor(start))}`);
  // Write to the socket after the head: the response object would delay every write by a turn of
  // the event loop.
  const reader = openReader(response.socket ?? response, person(), start, filter, services);
  if (!firstPage) {
    reader.startLive();
    return undefined;
  }
  // A reader that is too slow must resume later from its cursor, so that others get its place.
  const cancel = services.clock.after(maxCatchUpMs, () => response.destroy());
  try {
    await reader.catchUp(firstPage);
  } catch (error) {
    services.log.warn(
      { error, correlation_id: request.correlation_id },
      'a stream broke off while catching up; its reader will resume',
    );
    response.destroy();
  } finally {
    cancel();
    endCatchUp();
  }
  return undefined;
};
