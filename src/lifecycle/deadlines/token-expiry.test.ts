import { expect, test } from 'vitest';
import { noticeFrom } from './token-expiry.ts';

const hour = 3_600_000;
const created_at = new Date(Date.UTC(2026, 0, 1));
const after = (hours: number) => new Date(created_at.getTime() + hours * hour);

test.each([
  ['opens a notice a tenth of its life ahead', 10, 9],
  ['opens a notice three days ahead for a month', 720, 648],
  ['opens a notice at most a week ahead', 10_000, 10_000 - 7 * 24],
])('%s', (_, lives, noticed) => {
  expect(noticeFrom({ created_at, expires_at: after(lives) })).toEqual(after(noticed));
});
