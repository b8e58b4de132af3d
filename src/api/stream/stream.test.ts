/** Tests the time limit of a stream that catches up, on a virtual clock. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { silentLog } from '../../engine/engine-log.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { readHeadCursor } from '../../store/evidence/commit-order.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { testFleet } from '../../store/testing/fleet.ts';
import type { ApiServices } from '../services.ts';
import { streamOpen } from './stream.ts';

/** More facts than one page; the first page fills the buffer of a reader that does not read. */
const factCount = 600;

/** The parts of a response that `streamOpen` uses, read only when the test reads. */
const slowResponse = () =>
  Object.assign(new PassThrough({ highWaterMark: 1024 }), { socket: null, removeHeader() {}, writeHead() {} });

async function startCatchUp() {
  const store = await testStore();
  const fleet = await testFleet(store.db);
  await recordEvidence(
    store.db,
    Array.from({ length: factCount }, () => ({
      ...({ at: fleet.now(), layer: 'workflow', kind: 'node.explained', summary: 'x'.repeat(200) } as const),
    })),
  );
  await until('the facts to be settled', async () => {
    const [last] = await store.db.query<{ seq: string }>('select max(seq)::text as seq from evidence');
    return (await readHeadCursor(store.db)).seq === last?.seq;
  });
  const clock = virtualClock();
  const response = slowResponse();
  const counts = { held: 0, dropped: 0 };
  const none = new Map();
  const services = {
    db: store.db,
    clock,
    log: silentLog,
    rates: { chargePage() {} },
    places: {
      streams: { hold() {} },
      catch_ups: {
        take() {
          counts.held++;
          return () => counts.held--;
        },
      },
    },
    feed: {
      position: () => '0-0',
      add: () => () => {},
      noteDropped: () => counts.dropped++,
      join: async (joined: unknown[]) => ({ facts: joined, nodes: none, allocations: none, operations: none }),
    },
  } as unknown as ApiServices;
  const call = {
    query: { cursor: '0-0', topics: 'evidence' },
    person: () => ({ token_id: 'tok_1', name: 'reader', visibility: wholeFleet, expires_at: null, session_id: null }),
    request: { headers: {}, correlation_id: 'corr_1' },
    reply: { hijack() {}, raw: response },
  } as unknown as Parameters<typeof streamOpen>[0];
  const done = streamOpen(call, services);
  await until('the reader to be behind', async () => response.writableNeedDrain);
  return { clock, response, counts, done, close: store.close };
}

test('drops a reader that takes more than 60 s to catch up, and frees its place', async () => {
  const { clock, response, counts, done, close } = await startCatchUp();
  try {
    await clock.advance(59_000);
    expect(response.destroyed).toBe(false);
    expect(counts.held).toBe(1);
    await clock.advance(2_000);
    expect(response.destroyed).toBe(true);
    await done;
    // The time limit ended the stream. The stall limit would have counted a dropped reader.
    expect(counts).toEqual({ held: 0, dropped: 0 });
  } finally {
    await close();
  }
});

test('keeps a reader that caught up in time', async () => {
  const { clock, response, counts, done, close } = await startCatchUp();
  try {
    response.resume();
    await done;
    await clock.advance(120_000);
    expect(response.destroyed).toBe(false);
    expect(counts).toEqual({ held: 0, dropped: 0 });
  } finally {
    response.destroy();
    await close();
  }
});
