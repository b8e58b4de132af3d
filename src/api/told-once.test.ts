import { expect, test } from 'vitest';
import { virtualClock } from '../base/virtual-clock.ts';
import { createToldOnce } from './told-once.ts';

test('the first is told, repeats are counted, and the count is told after an hour', async () => {
  const clock = virtualClock(0);
  const tell = createToldOnce(clock);
  expect(tell('a')).toEqual({});
  expect(tell('a')).toBeUndefined();
  expect(tell('b')).toEqual({});
  await clock.advance(3599_000);
  expect(tell('a')).toBeUndefined();
  await clock.advance(1_000);
  expect(tell('a')).toEqual({ repeats_since_last: 2 });
  expect(tell('a')).toBeUndefined();
});

test('no more is remembered than fits, so that inventing keys costs no memory', () => {
  const tell = createToldOnce(virtualClock(0));
  for (let key = 0; key < 10_000; key++) tell(String(key));
  expect(tell('0')).toBeUndefined();
  expect(tell('one too many')).toEqual({});
  expect(tell('0'), 'forgotten, and so told again').toEqual({});
});
