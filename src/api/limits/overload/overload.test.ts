import { expect, test } from 'vitest';
import { virtualClock } from '../../../base/virtual-clock.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { attentionStatuses } from '../../../lifecycle/explain/attention.ts';
import { noShortage } from '../../../lifecycle/limits/overload.ts';
import { watchOverload } from './overload.ts';

function watchTestOverload(beat_rate = 100) {
  const clock = virtualClock();
  const load = { added: 0, behind: 0 };
  const overload = watchOverload({
    clock,
    beat_rate,
    beats: { added: () => load.added, storedAfterMs: () => load.behind },
  });
  /** Adds `beats` every half second. */
  const advance = async (seconds: number, beats = 0) => {
    for (let half = 0; half < seconds * 2; half++) {
      load.added += beats;
      await clock.advance(500);
    }
  };
  return { overload, load, advance };
}

test('sheds after a few seconds of high load, but not after half a second', async () => {
  const { overload, advance } = watchTestOverload();
  await advance(10, 50);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await advance(0.5, 250);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await advance(10, 250);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: true });
  await advance(20, 50);
  expect(overload.shedding(), 'the overload is over').toEqual({
    reads: false,
    beats: false,
    work: false,
    changes: false,
    stretch: 1,
  });
  overload.stop();
});

test('refuses lists first and the overview last, but never Attention and single nodes', async () => {
  const { overload, load, advance } = watchTestOverload();
  const admits = (name: OperationName, query = {}) => {
    try {
      overload.admitRead(name, query);
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: 'server_busy' });
      return false;
    }
  };
  const readAdmissions = () => ({
    lists: admits('node-list', { status: 'ready' }) || admits('fleet-get') || admits('timeline-get'),
    overview: admits('overview-get'),
    one: admits('node-get') && admits('node-explain') && admits('node-list', { ids: 'node_1' }),
    attention:
      attentionStatuses.nodes.every((status) => admits('node-list', { status })) &&
      attentionStatuses.allocations.every((status) => admits('allocation-list', { status })) &&
      attentionStatuses.operations.every((status) => admits('operation-list', { status })) &&
      (['server-status', 'brake-get', 'sweep-list', 'pool-list', 'residue-list', 'drift-list'] as const).every((name) =>
        admits(name),
      ),
  });
  expect(readAdmissions()).toEqual({ lists: true, overview: true, one: true, attention: true });
  load.behind = 3_000;
  await advance(10, 1);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: false });
  expect(readAdmissions()).toEqual({ lists: false, overview: true, one: true, attention: true });
  load.behind = 6_000;
  await advance(20, 1);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: true });
  expect(readAdmissions()).toEqual({ lists: false, overview: false, one: true, attention: true });
  expect(overload.figures()).toMatchObject({ reads_shed: 7, beats_shed: 0 });
  overload.stop();
});

test('does not shed after one late flush', async () => {
  const { overload, load, advance } = watchTestOverload();
  load.behind = 60_000;
  await advance(0.5, 1);
  load.behind = 200;
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  await advance(5, 1);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  overload.stop();
});

test('the overload ends when no heartbeats arrive after a slow flush', async () => {
  const { overload, load, advance } = watchTestOverload();
  load.behind = 6_000;
  await advance(20, 1);
  expect(overload.shedding()).toMatchObject({ reads: true, beats: true });
  await advance(20);
  expect(overload.shedding()).toMatchObject({ reads: false, beats: false });
  overload.stop();
});

test('does not shed after one suspended minute, but sheds while the event loop stays late', async () => {
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

test('the problem for a shed heartbeat has the time of the next heartbeat', () => {
  const { overload } = watchTestOverload();
  const { code, extras } = overload.slowDown(41.5);
  expect({ code, ...extras }).toEqual({
    code: 'beats_slow_down',
    retry_after_seconds: 41.5,
    heartbeat_interval_seconds: 41.5,
  });
  expect(overload.figures().beats_shed).toBe(1);
  overload.stop();
});

/** An idle server that can become short of something. */
function watchTestShortage() {
  const clock = virtualClock();
  let shortage = noShortage;
  const logged: string[] = [];
  const overload = watchOverload({
    clock,
    beat_rate: 100,
    beats: { added: () => 0, storedAfterMs: () => 0 },
    shortage: () => shortage,
    onChange: (message) => void logged.push(message),
  });
  const setShortage = async (of: Partial<typeof noShortage>) => {
    shortage = { ...noShortage, ...of };
    await clock.advance(5_000);
  };
  return { overload, logged, setShortage };
}

test('refuses only new work in a shortage, and logs its start and its end once', async () => {
  const { overload, logged, setShortage } = watchTestShortage();
  const admit = () => {
    overload.admitWork({ method: 'POST' });
    overload.admitWork({ method: 'POST', new_work: true });
  };
  admit();
  await setShortage({ files_share: 1 });
  expect(admit).toThrow(expect.objectContaining({ code: 'resources_short' }));
  overload.admitWork({ method: 'POST' });
  await setShortage({});
  admit();
  expect(logged).toEqual([expect.stringContaining('short of'), 'the shortage is over']);
  expect(overload.figures()).toMatchObject({ work_refused: 1, beats_shed: 0 });
  overload.stop();
});

test('refuses only changes while short of disk space, says so, and logs its start and its end once', async () => {
  const { overload, logged, setShortage } = watchTestShortage();
  const start = () => overload.admitWork({ method: 'POST', new_work: true });
  start();
  await setShortage({ is_short_of_disk: true });
  const detail = 'The server is short of disk space, so it starts nothing new. `slipway status` says what to do.';
  expect(start).toThrow(expect.objectContaining({ code: 'resources_short', message: detail }));
  overload.admitWork({ method: 'GET', new_work: true });
  overload.admitWork({ method: 'POST', new_work: true, reads_only: true });
  overload.admitWork({ method: 'POST' });
  overload.admitRead('node-list', {});
  await setShortage({});
  start();
  expect(logged).toEqual([expect.stringContaining('short of disk space'), 'the shortage of disk space is over']);
  expect(overload.figures()).toMatchObject({ work_refused: 1, reads_shed: 0 });
  overload.stop();
});
