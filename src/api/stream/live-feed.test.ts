/** Tests that a stopped feed starts no further delivery, whether the last one succeeds or fails. */
import { expect, test } from 'vitest';
import { pause } from '../../base/clock.ts';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { createLiveFeed } from './live-feed.ts';

const fact = (seq: number) =>
  ({ cursor: `7-${seq}`, at: '2030-01-01T00:00:00.000Z', kind: 'node.said', node_id: 'n', data: {} }) as Evidence;

test.for([true, false])('starts no delivery after the stop, if the last one fails: %s', async (fails) => {
  const clock = virtualClock();
  let publish: (each: Evidence) => void = () => {};
  const tail = {
    subscribeAll(onFact: (each: Evidence) => void) {
      publish = onFact;
      return () => {};
    },
    whenHistoryChanged: () => {},
    position: () => '7-0',
  } as unknown as EvidenceTail;
  let queries = 0;
  const db: Queryable = {
    async query() {
      queries++;
      await pause(clock, 100);
      if (fails) throw new Error('the store is away');
      return [];
    },
    redact: builtInRedactor,
    markEvidenceWritten: () => {},
  };
  const feed = createLiveFeed({ db, tail, clock, onError: () => {} });
  const filter = { topics: new Set(['evidence' as const]), visibility: wholeFleet };
  feed.add({ filter, token_id: 'token', session_id: null, take: () => {}, end: () => {} });
  publish(fact(1));
  await clock.advance(20);
  publish(fact(2));
  const started = queries;
  expect(started).toBeGreaterThan(0);
  feed.stop();
  await clock.advance(5_000);
  expect({ queries, timers: clock.pendingTimers() }).toEqual({ queries: started, timers: 0 });
});
