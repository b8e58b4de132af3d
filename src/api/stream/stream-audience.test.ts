import { expect, test } from 'vitest';
import { pause } from '../../base/clock.ts';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { Allocation } from '../../contract/allocation.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { tenantOnly, wholeFleet } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../../store/pg/database.ts';
import type { FeedBatch } from './feed-batch.ts';
import { createLiveFeed } from './live-feed.ts';
import { createAudience, type Piece, type StreamReader } from './stream-audience.ts';
import type { StreamFilter } from './stream-events.ts';

let serializations = 0;
const factOf = (seq: number, about: Partial<Evidence>): Evidence =>
  Object.defineProperty(
    {
      ...{ cursor: `7-${seq}`, at: '2030-01-01T00:00:00.000Z', layer: 'node', kind: 'node.said', summary: 'said' },
      ...{ data: {}, actor: null, node_id: null, node_instance_id: null, correlation_id: null },
      ...{ allocation_id: null, workflow_id: null, ...about },
    } as Evidence,
    'toJSON',
    {
      value(this: Evidence) {
        serializations++;
        return { ...this };
      },
    },
  );

const allocationEntry = (allocation_id: string, tenant: string) =>
  [allocation_id, { allocation_id, tenant, pool: 'gpu' } as Allocation] as const;

const batchOf = (...facts: Evidence[]): FeedBatch => ({
  facts,
  nodes: new Map(),
  allocations: new Map([allocationEntry('a', 'acme'), allocationEntry('g', 'globex')]),
  operations: new Map(),
});

const evidence: StreamFilter = { topics: new Set(['evidence']), visibility: wholeFleet };

function readerOf(filter: Partial<StreamFilter> = {}, token_id = 'token', session_id: string | null = null) {
  const pieces: Piece[] = [];
  const ended: true[] = [];
  const reader: StreamReader = {
    filter: { ...evidence, ...filter },
    token_id,
    session_id,
    take: (piece) => pieces.push(piece),
    end: () => ended.push(true),
  };
  return { reader, pieces, ended, text: () => pieces.map(({ bytes }) => bytes?.toString() ?? '').join('') };
}

const facts = [
  factOf(1, { allocation_id: 'a', summary: 'of acme' }),
  factOf(2, { allocation_id: 'g', summary: 'of globex' }),
  factOf(3, { node_id: 'n', summary: 'of a node' }),
];

test('shares bytes between readers with the same filter, and serializes each fact once', async () => {
  const audience = createAudience(virtualClock());
  const all = Array.from({ length: 50 }, () => readerOf());
  const tenants = ['acme', 'globex'].map((tenant) => readerOf({ visibility: tenantOnly(tenant) }));
  const node = readerOf({ node_id: 'n' });
  const other = readerOf({ node_id: 'another' });
  for (const { reader } of [...all, ...tenants, node, other]) audience.add(reader);
  expect(audience.figures()).toMatchObject({ readers: 54, filters: 5 });
  serializations = 0;
  await audience.send(batchOf(...facts));
  expect(serializations).toBe(3);
  const shared = all[0]?.pieces[0]?.bytes;
  expect(shared).toBeInstanceOf(Buffer);
  for (const { pieces } of all) expect(pieces.map(({ bytes }) => bytes === shared)).toEqual([true]);
  const summaries = (reader: ReturnType<typeof readerOf>) =>
    [...reader.text().matchAll(/"summary":"(.+?)"/g)].map(([, summary]) => summary);
  expect(all.slice(0, 1).map(summaries)).toEqual([['of acme', 'of globex', 'of a node']]);
  expect(tenants.map(summaries)).toEqual([['of acme'], ['of globex']]);
  expect(summaries(node)).toEqual(['of a node']);
  expect(other.pieces.map(({ bytes, last }) => ({ bytes, last }))).toEqual([
    { bytes: null, last: { xid: '7', seq: '3' } },
  ]);
});

test('ends the streams of an ended session, but not others of the same token', async () => {
  const audience = createAudience(virtualClock());
  const [closed, other, bearer] = [
    readerOf({}, 'token', 'gone'),
    readerOf({}, 'token', 'other'),
    readerOf({}, 'token'),
  ];
  for (const { reader } of [closed, other, bearer]) audience.add(reader);
  await audience.send(batchOf(factOf(1, { kind: 'session.ended', data: { session_id: 'gone', token_id: 'token' } })));
  expect([closed, other, bearer].map(({ ended }) => ended.length)).toEqual([1, 0, 0]);
});

test('ends the streams of a revoked token, and sends nothing to removed readers', async () => {
  const audience = createAudience(virtualClock());
  const [revoked, valid, removed] = [readerOf({}, 'revoked'), readerOf({}, 'valid'), readerOf({}, 'removed')];
  audience.add(revoked.reader);
  audience.add(valid.reader);
  const remove = audience.add(removed.reader);
  remove();
  remove();
  await audience.send(batchOf(factOf(1, { kind: 'token.revoked', data: { token_id: 'revoked' } })));
  expect([revoked, valid, removed].map(({ ended, pieces }) => [ended.length, pieces.length])).toEqual([
    [1, 0],
    [0, 1],
    [0, 0],
  ]);
  expect(audience.readers()).toBe(2);
});

test('waits for more facts before the next batch if the last batch took long', async () => {
  const clock = virtualClock();
  const subscribers: ((fact: Evidence) => void)[] = [];
  const none = () => undefined;
  const tail = {
    subscribeAll(onFact: (fact: Evidence) => void) {
      subscribers.push(onFact);
      return none;
    },
    ...{
      subscribe: () => none,
      nudge: none,
      poke: none,
      lagMs: () => 0,
      whenHistoryChanged: () => {},
      lost: new Promise<Error>(none),
      position: () => '7-0',
      stop: async () => undefined,
    },
  };
  let slowMs = 0;
  const db: Queryable = {
    async query() {
      await pause(clock, slowMs);
      return [];
    },
    redact: builtInRedactor,
    markEvidenceWritten: none,
  };
  const feed = createLiveFeed({ db, tail, clock, onError: (error) => expect(error).toBeUndefined() });
  const { reader, pieces } = readerOf();
  feed.add(reader);
  const publish = (seq: number) => {
    for (const each of subscribers) each(factOf(seq, {}));
  };
  const batches = () => pieces.map(({ first, last }) => `${first.seq}-${last.seq}`);
  publish(1);
  await clock.advance(10);
  expect(batches(), 'a fast batch').toEqual(['1-1']);
  slowMs = 40;
  publish(2);
  await clock.advance(20);
  publish(3);
  expect(feed.position(), 'a reader that starts now gets the whole next batch').toBe('7-2');
  await clock.advance(30);
  publish(4);
  expect(batches(), 'the feed waits before the next batch').toEqual(['1-1', '2-2']);
  await clock.advance(100);
  expect(batches()).toEqual(['1-1', '2-2', '3-4']);
  feed.stop();
});
