import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { createRateLimitedNotices, maxTargets } from './rate-limited-notices.ts';

const makeNotice = (kind: string, target: string | null = null, actor = 'somebody') => ({ actor, kind, target });

test('admits the first notice, counts repeats, and reports the count after an hour', async () => {
  const clock = virtualClock(0);
  const notices = createRateLimitedNotices(clock);
  expect(notices.admit(makeNotice('a'))).toEqual({});
  expect(notices.admit(makeNotice('a'))).toBeUndefined();
  expect(notices.admit(makeNotice('b'))).toEqual({});
  await clock.advance(3599_000);
  expect(notices.admit(makeNotice('a'))).toBeUndefined();
  await clock.advance(1_000);
  expect(notices.admit(makeNotice('a'))).toEqual({ repeats_since_last: 2 });
  expect(notices.admit(makeNotice('a'))).toBeUndefined();
});

test('counts each actor, target and kind of notice separately', () => {
  const notices = createRateLimitedNotices(virtualClock(0));
  for (const notice of [
    makeNotice('a', 'x'),
    makeNotice('a', 'y'),
    makeNotice('b', 'x'),
    makeNotice('a', 'x', 'another'),
  ])
    expect(notices.admit(notice)).toEqual({});
});

test('reports the size of a flood within the hour, in a few entries', () => {
  const notices = createRateLimitedNotices(virtualClock(0));
  const entries = Array.from({ length: 1000 }, () => notices.admit(makeNotice('a', 'x'))).filter(
    (each) => each !== undefined,
  );
  expect(entries).toHaveLength(4);
  expect(entries.reduce((sum, { repeats_since_last = 0 }) => sum + 1 + repeats_since_last, 0)).toBe(1000);
});

test('names the targets of a scan up to a limit, and counts further ones', async () => {
  const clock = virtualClock(0);
  const notices = createRateLimitedNotices(clock);
  const scan = (from: number, count: number) =>
    Array.from({ length: count }, (_, each) => notices.admit(makeNotice('a', `target ${from + each}`)));
  expect(scan(0, maxTargets).every((entry) => entry && !entry.of_many_targets)).toBe(true);
  const unnamedEntries = scan(maxTargets, 1000).filter((each) => each !== undefined);
  expect(unnamedEntries).toHaveLength(4);
  expect(unnamedEntries.every(({ of_many_targets }) => of_many_targets)).toBe(true);
  expect(notices.admit(makeNotice('a', 'target 0')), 'a named target is still counted separately').toBeUndefined();
  expect(notices.admit(makeNotice('a', 'target 0', 'another')), 'another actor is not affected').toEqual({});
  await clock.advance(3600_000);
  expect(notices.admit(makeNotice('a', 'target 1')), 'targets are named again after an hour').toEqual({
    repeats_since_last: 0,
  });
});

test('remembers a bounded number of actors', () => {
  const notices = createRateLimitedNotices(virtualClock(0));
  for (let actor = 0; actor < 10_000; actor++) notices.admit(makeNotice('a', null, String(actor)));
  expect(notices.admit(makeNotice('a', null, '0'))).toBeUndefined();
  expect(notices.admit(makeNotice('a', null, 'one too many'))).toEqual({});
  expect(notices.admit(makeNotice('a', null, '0')), 'forgotten, so admitted again').toEqual({});
});

test('admits the next notice after an entry was undone, and counts the undone one as a repeat', () => {
  const notices = createRateLimitedNotices(virtualClock(0));
  for (const notice of [makeNotice('a'), makeNotice('a', 'x')]) {
    const lostEntry = notices.admit(notice) ?? {};
    notices.undo(notice, lostEntry);
    const secondEntry = notices.admit(notice) ?? {};
    expect(secondEntry).toEqual({ repeats_since_last: 1 });
    notices.undo(notice, secondEntry);
    expect(notices.admit(notice)).toEqual({ repeats_since_last: 2 });
    expect(notices.admit(notice)).toBeUndefined();
  }
});
