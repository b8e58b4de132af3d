/** `GET /v1/stream`: live changes as server-sent events, resumed by cursor without loss or repeats. */
import type { ServerResponse } from 'node:http';
import { now } from '../base/clock.ts';
import { ApiProblem } from '../contract/errors.ts';
import type { Evidence } from '../contract/evidence.ts';
import { type Cursor, formatCursor, headCursor, parseCursor, readAfter } from '../store/evidence.ts';
import type { FeedBatch } from './live-feed.ts';
import type { ApiServices, Handler, Person } from './services.ts';
import { position, render, type Wanted } from './stream-events.ts';

const aliveEveryMs = 5_000;
const catchUpBatch = 500;
/** A reader this far behind is let go; it comes back with its cursor and slows nobody down. */
const mostUnsentBytes = 4 * 1024 * 1024;
/** So is one that has taken nothing for this many signs of life. */
const mostStalls = 12;

/** Beyond this many at once a replica would serve its readers late; the next ones try again, or another replica. */
const mostReaders = 1_000;
const crowdedRetrySeconds = 5;

const isAfter = (fact: Evidence, cursor: Cursor): boolean => {
  const at = parseCursor(fact.cursor) ?? cursor;
  return BigInt(at.xid) > BigInt(cursor.xid) || (at.xid === cursor.xid && BigInt(at.seq) > BigInt(cursor.seq));
};

const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      response.off('drain', end).off('close', end);
      resolve();
    };
    response.on('drain', end).on('close', end);
  });

/** A token that is revoked or expires takes its open streams with it. */
const isRevocation = (fact: Evidence, person: Person) =>
  fact.kind === 'token.revoked' && fact.data.token_id === person.token_id;

/** Ends a stream that nobody reads or may read any more, and tells the others, now and then, that we are still here. */
function keepAlive(response: ServerResponse, person: Person, services: ApiServices): () => void {
  let stalls = 0;
  let cancel = () => {};
  const beat = () => {
    stalls = response.writableNeedDrain ? stalls + 1 : 0;
    if (stalls > mostStalls || (person.expires_at && person.expires_at <= now(services.clock))) response.destroy();
    else {
      response.write(': alive\n\n');
      cancel = services.clock.after(aliveEveryMs, beat);
    }
  };
  cancel = services.clock.after(aliveEveryMs, beat);
  return () => cancel();
}

/**
 * One reader. Until it has caught up it reads from the store at its own pace and live batches are only noted; from then on
 * it gets them as they come. What it has had is never sent again, whichever way it comes.
 */
function openReader(response: ServerResponse, person: Person, start: Cursor, wanted: Wanted, services: ApiServices) {
  let reached = start;
  let live = false;
  let missed = false;

  const write = (batch: FeedBatch): boolean => {
    const last = batch.facts.at(-1);
    reached = (last && parseCursor(last.cursor)) ?? reached;
    return response.write(render(batch, wanted));
  };
  const unsubscribe = services.feed.subscribe((batch) => {
    if (batch.facts.some((fact) => isRevocation(fact, person))) response.destroy();
    else if (!live) missed ||= batch.facts.length > 0;
    else if (response.writableLength > mostUnsentBytes) response.destroy();
    // Who is behind anyway is not burdened with what the next look shows as well.
    else if (batch.moved) {
      const text = response.writableNeedDrain ? '' : render(batch, wanted);
      if (text) response.write(text);
    } else {
      const facts = batch.facts.filter((fact) => isAfter(fact, reached));
      if (facts.length > 0) write({ ...batch, facts });
    }
  });
  const stopBeating = keepAlive(response, person, services);
  response.on('close', () => {
    unsubscribe();
    stopBeating();
  });

  return {
    async catchUp() {
      do {
        missed = false;
        const { items } = await readAfter(services.db, reached, catchUpBatch);
        if (items.length > 0 && !write(await services.feed.join(items))) await drained(response);
        if (items.length === catchUpBatch) missed = true;
      } while (missed && !response.destroyed);
      live = true;
    },
  };
}

export const streamOpen: Handler<'stream-open'> = async ({ query, person, request, reply }, services) => {
  const wanted: Wanted = {
    ...query,
    topics: new Set((query?.topics ?? 'nodes,allocations,operations,evidence').split(',')),
    tenant: person().tenant,
  };
  const asked = String(request.headers['last-event-id'] ?? query?.cursor ?? '');
  const given = asked === '' ? undefined : parseCursor(asked);
  if (asked !== '' && !given) throw new ApiProblem('invalid_cursor');
  if (services.feed.readers() >= mostReaders)
    throw new ApiProblem('rate_limited', { retry_after_seconds: crowdedRetrySeconds });
  const start = given ?? (await headCursor(services.db));

  reply.hijack();
  const response = reply.raw;
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-content-type-options': 'nosniff',
    'x-correlation-id': request.correlation_id,
  });
  response.write(`retry: 1000\n${position(formatCursor(start))}`);
  const reader = openReader(response, person(), start, wanted, services);
  try {
    await reader.catchUp();
  } catch (error) {
    services.log.warn(
      { error, correlation_id: request.correlation_id },
      'a stream broke off while catching up; its reader will resume',
    );
    response.destroy();
  }
  return undefined;
};
