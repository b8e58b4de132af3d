import { expect, test } from 'vitest';
import { virtualClock } from '../../../base/virtual-clock.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { attentionStatuses } from '../../../lifecycle/explain/attention.ts';
import { watchOverload } from './overload.ts';

function watched(beat_rate = 100) {
  const clock = virtualClock();
  const heard = { added: 0, behind: 0 };
  const overload = watchOverload({
    clock,
    beat_rate,
    beats: { added: () => heard.added, storedAfterMs: () => heard.behind },
  });
  /** `beats` per half second. */
  const pass = async (seconds: number, beats = 0) => {
    for (let half = 0; half < seconds * 2; half++) {
      heard.added += beats;
      await clock.advance(500);
    }
  };
  return { overload, heard, pass };
}

test('sheds after a few seconds of high load, not after a moment', async () => {
  const { overload, pass } = watched();
  await pass(10, 50);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await pass(0.5, 250);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await pass(10, 250);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: true });
  await pass(20, 50);
  expect(overload.shedding(), 'it is over').toEqual({ reads: false, beats: false, stretch: 1 });
  overload.stop();
});

test('refuses lists first and the overview last, but never Attention and single nodes', async () => {
  const { overload, heard, pass } = watched();
  const admits = (name: OperationName, query = {}) => {
    try {
      overload.admitRead(name, query);
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: 'server_busy' });
      return false;
    }
  };
  const admitted = () => ({
    lists: admits('node-list', { status: 'ready' }) || admits('fleet-get') || admits('timeline-get'),
    overview: admits('overview-get'),
    one: admits('node-get') && admits('node-explain') && admits('node-list', { ids: 'node_1' }),
    attention:
      attentionStatuses.nodes.every((status) => admits('node-list', { status })) &&
      attentionStatuses.allocations.every((status) => admits('allocation-list', { status })) &&
      attentionStatuses.operations.every((status) => admits('operation-list', { status })) &&
      (['brake-get', 'sweep-list', 'pool-list', 'residue-list', 'drift-list'] as const).every((name) => admits(name)),
  });
  expect(admitted()).toEqual({ lists: true, overview: true, one: true, attention: true });
  heard.behind = 3_000;
  await pass(10);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: false });
  expect(admitted()).toEqual({ lists: false, overview: true, one: true, attention: true });
  heard.behind = 6_000;
  await pass(20);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: true });
  expect(admitted()).toEqual({ lists: false, overview: false, one: true, attention: true });
  expect(overload.figures()).toMatchObject({ reads_shed: 7, beats_shed: 0 });
  overload.stop();
});

test('does not shed after one late flush', async () => {
  const { overload, heard, pass } = watched();
  heard.behind = 60_000;
  await pass(0.5);
  heard.behind = 200;
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await pass(5);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  overload.stop();
});

test('does not shed after a suspended minute, but while the loop stays late', async () => {
  const clock = virtualClock();
  let stoppedMs = 0;
  const { shedding, stop } = watchOverload({
    clock: { ...clock, monotonicMs: () => clock.monotonicMs() + stoppedMs },
    beat_rate: 100,
    beats: { added: () => 0, storedAfterMs: () => 0 },
  });
  stoppedMs = 60_000;
  await clock.advance(500);
  expect(shedding()).toMatchObject({ reads: false, beats: false });
  for (let samples = 0; samples < 10; samples++) {
    stoppedMs += 3_000;
    await clock.advance(500);
  }
  expect(shedding()).toMatchObject({ reads: true, beats: true });
  stop();
});

test('tells a shed heartbeat when to come again', () => {
  const { overload } = watched();
  const { code, extras } = overload.slowDown(41.5);
  expect({ code, ...extras }).toEqual({
    code: 'beats_slow_down',
    retry_after_seconds: 41.5,
    heartbeat_interval_seconds: 41.5,
  });
  expect(overload.figures().beats_shed).toBe(1);
  overload.stop();
});
