import { expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { restBetweenPasses } from './rest-between-passes.ts';

test('with a share of 5 %, rests twenty seconds after a pass of one second, however often it is woken', async () => {
  const clock = virtualClock();
  let passes = 0;
  const run = restBetweenPasses(clock, 0.05, async () => {
    passes++;
    await clock.advance(1000);
    return { decided: 1 };
  });
  const now = () => moment(clock.nowMs());
  expect(await run(now())).toEqual({ decided: 1 });
  await clock.advance(5000);
  expect(await run(now())).toEqual({ decided: 0, next_in_seconds: 15 });
  await clock.advance(15_000);
  expect(await run(now())).toEqual({ decided: 1 });
  expect(passes).toBe(2);
});
