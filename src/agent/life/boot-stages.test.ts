import { expect, test } from 'vitest';
import { moment, pause } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { serverTime } from '../connection/server-time.ts';
import type { AgentState, StateFile } from '../state/state-file.ts';
import { bootStages } from './boot-stages.ts';

function memory(): StateFile {
  let state = { boot_stages: [], boot_stages_sent: 0 } as unknown as AgentState;
  const change = (part: Partial<AgentState>) => {
    state = { ...state, ...part };
  };
  return { read: () => state, note: change, update: change };
}

const years_ms = 5 * 365 * 24 * 3600 * 1000;
const boot_ms = 4_000;

async function booted() {
  const clock = virtualClock();
  const state = memory();
  const time = serverTime(clock);
  const stages = bootStages(clock, state, time);
  const server_began_ms = clock.nowMs() - years_ms;
  const done = stages.run('image-pull', () => pause(clock, boot_ms));
  await clock.advance(boot_ms);
  await done;
  const hear = () => {
    const date = moment(clock.nowMs() - years_ms).toUTCString();
    time.heard(date, clock.monotonicMs(), clock.monotonicMs());
  };
  return { clock, state, time, stages, hear, server_began_ms };
}

test("a stage has a start time, by the server's clock, only once a server has answered", async () => {
  const { stages, hear, server_began_ms } = await booted();
  expect(stages.all()).toEqual([{ name: 'image-pull', seconds: boot_ms / 1000 }]);
  hear();
  const [stage] = stages.unsent();
  // `Date` has whole seconds.
  expect(Math.abs(Date.parse(stage?.started_at ?? '') - server_began_ms)).toBeLessThanOrEqual(1000);
});

test('a later process does not know when the stages of an earlier one began', async () => {
  const { clock, state, time, hear } = await booted();
  state.note({ boot_stages: [{ name: 'old', seconds: 1, started_at: moment(clock.nowMs()).toISOString() }] });
  hear();
  expect(bootStages(clock, state, time).all()).toEqual([{ name: 'old', seconds: 1 }]);
});

test('start times that the server rejects are not sent again', async () => {
  const { stages, hear } = await booted();
  hear();
  expect(stages.dropTimes()).toBe(true);
  expect(stages.all()).toEqual([{ name: 'image-pull', seconds: boot_ms / 1000 }]);
  expect(stages.dropTimes()).toBe(false);
});

test('a stage that begins as another ends stays the current one', async () => {
  const { clock, stages } = await booted();
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
