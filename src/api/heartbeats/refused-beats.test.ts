/** Tests that any number of refused heartbeats writes only a few rows. */
import { expect, test } from 'vitest';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { refusalRecordedEverySeconds } from '../../lifecycle/findings/refused-beats.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { createRefusedBeats, type RefusedBeat } from './refused-beats.ts';

const relay = { token_id: 'tok_1', name: 'rack-7', pool: 'metal', expires_at: null };

function recorder() {
  const clock = virtualClock();
  const written: number[] = [];
  let fails = false;
  const errors: unknown[] = [];
  let isOverLimit = false;
  const db = {
    redact: builtInRedactor,
    markEvidenceWritten() {},
    async query(_: string, [rows]: [string]) {
      if (fails) throw new Error('the store is unavailable');
      written.push(JSON.parse(rows).length);
      return [];
    },
  } as unknown as Queryable;
  const { report, stop } = createRefusedBeats(db, clock, { tryCharge: () => !isOverLimit }, (error) =>
    errors.push(error),
  );
  const beat = (node: number, node_status = 'ready') =>
    report({
      session: { node_id: `node_${node}`, node_instance_id: `inst_${node}`, node_status, pool: 'gpu' },
      relay,
      code: 'scope_insufficient',
    } as unknown as RefusedBeat);
  return {
    clock,
    written,
    errors,
    beat,
    stop,
    limitWrites(value: boolean) {
      isOverLimit = value;
    },
    fail(value: boolean) {
      fails = value;
    },
  };
}

test('records a refused machine once per status and hour', async () => {
  const { clock, written, beat } = recorder();
  for (let second = 0; second < 600; second += 10) {
    beat(1);
    await clock.advance(10_000);
  }
  expect(written).toEqual([1]);
  beat(1, 'offline');
  beat(1, 'offline');
  await clock.advance(1_000);
  expect(written).toEqual([1, 1]);
  await clock.advance(1000 * refusalRecordedEverySeconds);
  beat(1, 'offline');
  await clock.advance(1_000);
  expect(written).toEqual([1, 1, 1]);
});

test('records a machine with its next heartbeat if the batch was full or its write failed', async () => {
  const { clock, written, errors, beat, fail, stop } = recorder();
  const beatRack = () => Array.from({ length: 1_500 }, (_, node) => beat(node));
  beatRack();
  await clock.advance(1_000);
  beatRack();
  await clock.advance(1_000);
  beatRack();
  await clock.advance(1_000);
  expect(written).toEqual([1_000, 500]);
  fail(true);
  beat(2_000);
  await clock.advance(1_000);
  expect(errors).toHaveLength(1);
  fail(false);
  beat(2_000);
  await stop();
  expect(written).toEqual([1_000, 500, 1]);
});

test('records a machine with its next heartbeat if the write limit dropped the first', async () => {
  const { written, beat, limitWrites, stop } = recorder();
  limitWrites(true);
  beat(1);
  limitWrites(false);
  beat(1);
  await stop();
  expect(written).toEqual([1]);
});
