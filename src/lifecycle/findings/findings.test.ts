import { expect, it } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import { defaultDriftSettings, defaultRepeatFailureSettings, isConfirmed } from './findings.ts';
import { defaultOrphanSettings, isOrphaned } from './residue.ts';

it('counts a machine as orphaned after two separate passes', () => {
  const { every_seconds } = defaultOrphanSettings;
  const first = moment(Date.parse('2030-01-01T00:00:00Z'));
  const after = (seconds: number) => isOrphaned(first, secondsLater(first, seconds), defaultOrphanSettings);
  expect(after(0)).toBe(false);
  expect(after(every_seconds / 2 - 1)).toBe(false);
  expect(after(every_seconds / 2)).toBe(true);
  expect(after(every_seconds)).toBe(true);
});

it('confirms a difference in the second pass', () => {
  expect([0, 1, 2, 3].map(isConfirmed)).toEqual([false, false, true, true]);
});

it('has the documented defaults', () => {
  expect(defaultOrphanSettings).toEqual({ every_seconds: 60 });
  expect(defaultDriftSettings).toEqual({ every_seconds: 10, parked_seconds: 3600 });
  expect(defaultRepeatFailureSettings).toEqual({ failures: 3, window_seconds: 86_400 });
});
