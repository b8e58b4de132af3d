import { expect, test } from 'vitest';
import { noticeTime } from './token-expiry.ts';

const hour = 3_600_000;
const created_at = new Date(Date.UTC(2026, 0, 1));
const after = (hours: number) => new Date(created_at.getTime() + hours * hour);

test.each([
  ['one hour before a token of 10 hours expires', 10, 9],
  ['three days before a token of 30 days expires', 720, 648],
  ['at most a week before a token expires', 10_000, 10_000 - 7 * 24],
])('opens a notice %s', (_, lifetimeHours, noticeHours) => {
  expect(noticeTime({ created_at, expires_at: after(lifetimeHours) })).toEqual(after(noticeHours));
});
