/** `GET /v1/stream`: live changes as server-sent events, resumed by cursor without loss or repeats. */
import type { ServerResponse } from 'node:http';
import { ApiProblem } from '../contract/errors.ts';
import type { Evidence } from '../contract/evidence.ts';
import { type Cursor, headCursor, parseCursor, readAfter } from '../store/evidence.ts';
import type { FeedBatch } from './live-feed.ts';
import type { ApiServices, Handler } from './services.ts';

const aliveEveryMs = 5_000;
const catchUpBatch = 500;
/** A reader this far behind is let go; it comes back with its cursor and slows nobody down. */
const mostUnsentBytes = 4 * 1024 * 1024;

interface Wanted {
  topics: Set<string>;
  tenant: string | null;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  pool?: string;
}

const isAfter = (fact: Evidence, cursor: Cursor): boolean => {
  const at = parseCursor(fact.cursor) ?? cursor;
  return BigInt(at.xid) > BigInt(cursor.xid) || (at.xid === cursor.xid && BigInt(at.seq) > BigInt(cursor.seq));
};

function isWanted(fact: Evidence, batch: FeedBatch, wanted: Wanted): boolean {
  if (
    wanted.tenant !== null &&
    (!fact.allocation_id || batch.allocations.get(fact.allocation_id)?.tenant !== wanted.tenant)
  )
    return false;
  if (wanted.node_id && fact.node_id !== wanted.node_id) return false;
  if (wanted.allocation_id && fact.allocation_id !== wanted.allocation_id) return false;
  if (wanted.workflow_id && fact.workflow_id !== wanted.workflow_id) return false;
  if (wanted.pool) {
    const pool =
      (fact.node_id && batch.nodes.get(fact.node_id)?.pool) ??
      (fact.allocation_id && batch.allocations.get(fact.allocation_id)?.pool);
    if (pool !== wanted.pool) return false;
  }
  return true;
}

const event = (name: string, data: unknown, id?: string) =>
  `${id ? `id: ${id}\n` : ''}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

const snapshots = [
  { topic: 'nodes', name: 'node', key: 'node_id', of: (batch: FeedBatch) => batch.nodes },
  { topic: 'allocations', name: 'allocation', key: 'allocation_id', of: (batch: FeedBatch) => batch.allocations },
  { topic: 'operations', name: 'operation', key: 'workflow_id', of: (batch: FeedBatch) => batch.operations },
] as const;

/** Current shapes first, then the facts with their cursors: whoever breaks off in between gets the facts again. */
function render(batch: FeedBatch, wanted: Wanted): string {
  const facts = batch.facts.filter((fact) => isWanted(fact, batch, wanted));
  const last = batch.facts.at(-1);
  let text = '';
  for (const { topic, name, key, of } of snapshots) {
    if (!wanted.topics.has(topic)) continue;
    for (const id of new Set(facts.flatMap((fact) => fact[key] ?? []))) {
      const shape = of(batch).get(id);
      if (shape) text += event(name, shape);
    }
  }
  if (wanted.topics.has('evidence')) for (const fact of facts) text += event('evidence', fact, fact.cursor);
  // The position moves on even past facts that were not wanted, so that a resume does not read them again.
  return last ? `${text}id: ${last.cursor}\nevent: position\ndata: {}\n\n` : text;
}

async function catchUp(response: ServerResponse, from: Cursor, wanted: Wanted, services: ApiServices): Promise<Cursor> {
  let cursor = from;
  for (;;) {
    const { items } = await readAfter(services.db, cursor, catchUpBatch);
    const last = items.at(-1);
    if (!last || response.destroyed) return cursor;
    response.write(render(await services.feed.join(items), wanted));
    cursor = parseCursor(last.cursor) ?? cursor;
    if (items.length < catchUpBatch) return cursor;
  }
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
  const start = given ?? (await headCursor(services.db));

  reply.hijack();
  const response = reply.raw;
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-correlation-id': request.correlation_id,
  });
  response.write(`retry: 1000\nid: ${start.xid}-${start.seq}\nevent: position\ndata: {}\n\n`);

  let buffered: FeedBatch[] | undefined = [];
  const send = (batch: FeedBatch) => {
    if (response.writableLength > mostUnsentBytes) response.destroy();
    else response.write(render(batch, wanted));
  };
  const unsubscribe = services.feed.subscribe((batch) => (buffered ? buffered.push(batch) : send(batch)));
  let cancelAlive = () => {};
  const alive = () => {
    response.write(': alive\n\n');
    cancelAlive = services.clock.after(aliveEveryMs, alive);
  };
  cancelAlive = services.clock.after(aliveEveryMs, alive);
  response.on('close', () => {
    unsubscribe();
    cancelAlive();
  });

  try {
    const reached = await catchUp(response, start, wanted, services);
    for (const batch of buffered) {
      const fresh = batch.facts.filter((fact) => isAfter(fact, reached));
      if (fresh.length > 0) send({ ...batch, facts: fresh });
    }
    buffered = undefined;
  } catch (error) {
    services.log.warn(
      { error, correlation_id: request.correlation_id },
      'a stream broke off while catching up; its reader will resume',
    );
    response.destroy();
  }
  return undefined;
};
