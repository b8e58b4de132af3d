import { expect, test } from 'vitest';
import { moment, pause } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { serverTime } from '../connection/server-time.ts';
import type { AgentState, StateFile } from '../state/state-file.ts';
import { bootStages } from './boot-stages.ts';

function memoryStateFile(): StateFile {
  let state = { boot_stages: [], boot_stages_sent: 0 } as unknown as AgentState;
  const change = (part: Partial<AgentState>) => {
    state = { ...state, ...part };
  };
  return { read: () => state, note: change, update: change };
}

const years_ms = 5 * 365 * 24 * 3600 * 1000;
const boot_ms = 4_000;

async function runOneStage() {
  const clock = virtualClock();
  const state = memoryStateFile();
  const time = serverTime(clock);
  const stages = bootStages(clock, state, time);
  const server_began_ms = clock.nowMs() - years_ms;
  const done = stages.run('image-pull', () => pause(clock, boot_ms));
  await clock.advance(boot_ms);
  await done;
  const receiveServerTime = () => {
    const date = moment(clock.nowMs() - years_ms).toUTCString();
    time.onDate(date, clock.monotonicMs(), clock.monotonicMs());
  };
  return { clock, state, time, stages, receiveServerTime, server_began_ms };
}

test("adds start times by the server's clock after the server has answered", async () => {
  const { stages, receiveServerTime, server_began_ms } = await runOneStage();
  expect(stages.all()).toEqual([{ name: 'image-pull', seconds: boot_ms / 1000 }]);
  receiveServerTime();
  const [stage] = stages.unsent();
  // The `Date` header has whole seconds.
  expect(Math.abs(Date.parse(stage?.started_at ?? '') - server_began_ms)).toBeLessThanOrEqual(1000);
});

test('sends no start times for stages of an earlier process', async () => {
  const { clock, state, time, receiveServerTime } = await runOneStage();
  state.note({ boot_stages: [{ name: 'old', seconds: 1, started_at: moment(clock.nowMs()).toISOString() }] });
  receiveServerTime();
  expect(bootStages(clock, state, time).all()).toEqual([{ name: 'old', seconds: 1 }]);
});

test('stops sending start times after the server rejected them', async () => {
  const { stages, receiveServerTime } = await runOneStage();
  receiveServerTime();
  expect(stages.dropTimes()).toBe(true);
  expect(stages.all()).toEqual([{ name: 'image-pull', seconds: boot_ms / 1000 }]);
  expect(stages.dropTimes()).toBe(false);
});

test('reports a stage as current if it begins while another one ends', async () => {
  const { clock, stages } = await runOneStage();
  let endFirst = () => {};
  const first = stages.run('first', () => new Promise<void>((resolve) => (endFirst = resolve)));
  endFirst();
  const second = stages.run('second', () => pause(clock, 1000));
  await first;
  expect(stages.current()).toBe('second');
  await clock.advance(1000);
  await second;
  expect(stages.current()).toBeNull();
});
