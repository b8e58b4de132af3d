import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { createToldOnce, mostTargets } from './rate-limited-notices.ts';

const comes = (what: string, target: string | null = null, actor = 'somebody') => ({ actor, what, target });

test('the first is told, repeats are counted, and the count is told after an hour', async () => {
  const clock = virtualClock(0);
  const tell = createToldOnce(clock);
  expect(tell(comes('a'))).toEqual({});
  expect(tell(comes('a'))).toBeUndefined();
  expect(tell(comes('b'))).toEqual({});
  await clock.advance(3599_000);
  expect(tell(comes('a'))).toBeUndefined();
  await clock.advance(1_000);
  expect(tell(comes('a'))).toEqual({ repeats_since_last: 2 });
  expect(tell(comes('a'))).toBeUndefined();
});

test('another actor, another target or another refusal is told for itself', () => {
  const tell = createToldOnce(virtualClock(0));
  for (const one of [comes('a', 'x'), comes('a', 'y'), comes('b', 'x'), comes('a', 'x', 'another')])
    expect(tell(one)).toEqual({});
});

test('how large a flood was is told within the hour, by few facts', () => {
  const tell = createToldOnce(virtualClock(0));
  const told = Array.from({ length: 1000 }, () => tell(comes('a', 'x'))).filter((each) => each !== undefined);
  expect(told).toHaveLength(4);
  expect(told.reduce((sum, { repeats_since_last = 0 }) => sum + 1 + repeats_since_last, 0)).toBe(1000);
});

test('whoever gropes through targets is told of by name of each up to a bound, and then as one who tries many', async () => {
  const clock = virtualClock(0);
  const tell = createToldOnce(clock);
  const grope = (from: number, count: number) =>
    Array.from({ length: count }, (_, each) => tell(comes('a', `target ${from + each}`)));
  expect(grope(0, mostTargets).every((told) => told && !told.of_many_targets)).toBe(true);
  const beyond = grope(mostTargets, 1000).filter((each) => each !== undefined);
  expect(beyond).toHaveLength(4);
  expect(beyond.every(({ of_many_targets }) => of_many_targets)).toBe(true);
  expect(tell(comes('a', 'target 0')), 'what was named before is still counted for itself').toBeUndefined();
  expect(tell(comes('a', 'target 0', 'another')), 'another is not drowned by it').toEqual({});
  await clock.advance(3600_000);
  expect(tell(comes('a', 'target 1')), 'an hour later it begins anew').toEqual({ repeats_since_last: 0 });
});

test('no more is remembered than fits, so that inventing actors costs no memory', () => {
  const tell = createToldOnce(virtualClock(0));
  for (let actor = 0; actor < 10_000; actor++) tell(comes('a', null, String(actor)));
  expect(tell(comes('a', null, '0'))).toBeUndefined();
  expect(tell(comes('a', null, 'one too many'))).toEqual({});
  expect(tell(comes('a', null, '0')), 'forgotten, and so told again').toEqual({});
});

test('what could not be recorded is told by the next one, with the count of all before it', () => {
  const tell = createToldOnce(virtualClock(0));
  for (const notice of [comes('a'), comes('a', 'x')]) {
    const lost = tell(notice) ?? {};
    tell.undo(notice, lost);
    const again = tell(notice) ?? {};
    expect(again).toEqual({ repeats_since_last: 1 });
    tell.undo(notice, again);
    expect(tell(notice)).toEqual({ repeats_since_last: 2 });
    expect(tell(notice)).toBeUndefined();
  }
});
