import { expect, it } from 'vitest';
import {
  formatSeconds,
  headlineOf,
  percent,
  predictedSentence,
  stuckSentence,
  tooSlowWords,
  undecidedSentence,
  type WhatIfCounts,
} from './what-if-words.ts';

const counts = (fields: Partial<WhatIfCounts> = {}): WhatIfCounts => ({
  budget_seconds: 400,
  boots: 212,
  arrived_count: 212,
  false_kill_count: 0,
  rescued_count: 0,
  stuck_count: 0,
  stuck_found_sooner_seconds: null,
  undecided_count: 0,
  predicted_false_kill_share: null,
  ...fields,
});

it.each([
  [{ boots: 0 }, 'With 400 s: unknown, because no boot is recorded.'],
  [{ boots: 5, arrived_count: 0 }, 'With 400 s: unknown, because none of 5 boots on record arrived.'],
  [{ boots: 1, arrived_count: 0 }, 'With 400 s: unknown, because the one boot on record never arrived.'],
  [{ boots: 1 }, 'With 400 s, the one boot on record would not have been given up before it arrived.'],
  [{}, 'With 400 s, none of 212 boots would have been given up before it arrived.'],
  [
    { false_kill_count: 1, rescued_count: 1 },
    'With 400 s, 1 of 212 boots would have been given up although it arrived; it would have been rescued.',
  ],
  [
    { false_kill_count: 1 },
    /although it arrived; it would have been lost, because it arrived after the rescue window\.$/,
  ],
  [{ false_kill_count: 3, rescued_count: 2 }, /3 of 212 boots .* they arrived; 2 of them would have been rescued\.$/],
  [{ false_kill_count: 3, rescued_count: 3 }, /all of them would have been rescued\.$/],
  [{ false_kill_count: 3 }, /none of them would have been rescued\.$/],
])('the headline for %o says %s', (fields, text) => {
  expect(headlineOf(counts(fields))).toMatch(text);
});

it.each([
  [{}, 'No recorded boot was stuck.'],
  [{ stuck_count: 1, stuck_found_sooner_seconds: 320 }, 'The one stuck boot would have been found 320 s sooner.'],
  [
    { stuck_count: 4, stuck_found_sooner_seconds: -80 },
    'The 4 stuck boots would have been found 80 s later, on average.',
  ],
  [{ stuck_count: 2, stuck_found_sooner_seconds: 0.01 }, 'The 2 stuck boots would have been found at the same time.'],
])('the sentence about stuck boots for %o says %s', (fields, text) => {
  expect(stuckSentence(counts(fields))).toBe(text);
});

it('says how many boots are undecided, and which share of future boots would be too slow', () => {
  expect(undecidedSentence(counts())).toBe('');
  expect(undecidedSentence(counts({ undecided_count: 1 }))).toMatch(
    /^1 boot ended for another reason after 400 s; whether it would/,
  );
  expect(undecidedSentence(counts({ undecided_count: 2 }))).toMatch(/^2 boots ended .* whether they would/);
  expect(predictedSentence(counts())).toBe('');
  expect(predictedSentence(counts({ predicted_false_kill_share: 0.012 }))).toMatch(
    /^Of future boots that arrive, 1\.2 % would/,
  );
});

it.each([
  [{ arrived_count: 6, predicted_false_kill_share: 0 }, 'at most 39 %'],
  [{ arrived_count: 6, false_kill_count: 6, predicted_false_kill_share: 1 }, 'at least 61 %'],
])('gives only a bound if none or all of the boots were slow: %o', (fields, share) => {
  expect(predictedSentence(counts(fields))).toBe(
    `Of future boots that arrive, ${share} would take longer (95 % sure).`,
  );
});

it('never rounds a share above zero to zero', () => {
  expect([0, 0.0004, 0.012, 0.123, 1].map(percent)).toEqual(['0 %', '< 0.1 %', '1.2 %', '12 %', '100 %']);
  expect([4.21, 9, 423.4, 1800].map(formatSeconds)).toEqual(['4.2 s', '9 s', '423 s', '1800 s']);
});

it('describes the share of slow boots, with a bound if none or all were slow', () => {
  expect(tooSlowWords({ share: 1, low: 1, high: 1 }, 6)).toBe('all 6 that arrived (95 % sure: at least 61 %)');
  expect(tooSlowWords({ share: 0, low: 0, high: 0 }, 5)).toBe('none of 5 that arrived (95 % sure: at most 45 %)');
  expect(tooSlowWords({ share: 0, low: 0, high: 0 }, 300)).toMatch(/none of 300 .* at most 1 %/);
  expect(tooSlowWords({ share: 0.02, low: 0.004, high: 0.05 }, 300)).toBe(
    '2 % of those that arrive (95 % sure: 0.4 % to 5 %)',
  );
});
