/**
 * Tests the judge of the fleet benchmark, because a lenient judge would make every run look good.
 */
import { describe, expect, test } from 'vitest';
import { brokenBy, isLost, judgeVerdicts, type VerdictRow } from '../bench/fleet/judge.ts';

const startedMs = Date.UTC(2026, 0, 1);
const at = (second: number) => new Date(startedMs + second * 1000);
const verdict = (name: string, second: number, more: Partial<VerdictRow> = {}): VerdictRow => ({
  ...{ name, kind: 'node.offline', at: at(second), summary: 'it is silent' },
  ...{ last_seen_at: at(100), gap_end: null, stale_seconds: 30 },
  ...more,
});
/** One machine dies a little after its last heartbeat. */
const dead = new Map([['dying', at(105)]]);
const nothing = { false_verdicts: [], missed: [], lateness_seconds: [] };

describe('a verdict', () => {
  test('is false on a machine that did not die', () => {
    const judged = judgeVerdicts([verdict('well', 131), verdict('dying', 131)], dead);
    expect(judged).toEqual({ ...nothing, false_verdicts: ['well node.offline: it is silent'], lateness_seconds: [1] });
  });

  test('is false before the death, and the death then still counts as missed', () => {
    const early = judgeVerdicts([verdict('dying', 104)], dead);
    expect(early).toEqual({ ...nothing, false_verdicts: ['dying node.offline: it is silent'], missed: ['dying'] });
    const both = judgeVerdicts([verdict('dying', 104), verdict('dying', 132)], dead);
    expect(both).toEqual({ ...early, missed: [], lateness_seconds: [2] });
  });

  test('is false after the death but before the end of the stale time', () => {
    const early = { ...nothing, false_verdicts: ['dying node.offline: it is silent'], missed: ['dying'] };
    expect(judgeVerdicts([verdict('dying', 129.9)], dead)).toEqual(early);
    expect(judgeVerdicts([verdict('dying', 179.9, { gap_end: at(150) })], dead)).toEqual(early);
    const both = judgeVerdicts([verdict('dying', 129.9), verdict('dying', 132)], dead);
    expect(both).toEqual({ ...early, missed: [], lateness_seconds: [2] });
  });

  test('is not false when the stale time is only rounded', () => {
    const exactly = verdict('dying', 133.3, { stale_seconds: 33.300_000_2 });
    expect(judgeVerdicts([exactly], dead)).toMatchObject({ false_verdicts: [], missed: [] });
  });

  test.for(['node.degraded', 'node.failed', 'node.lost', 'node.quarantined'])(
    '%s is false on a machine that did not die',
    (kind) => {
      expect(judgeVerdicts([verdict('well', 131, { kind })], new Map()).false_verdicts).toHaveLength(1);
      expect(judgeVerdicts([verdict('dying', 131, { kind })], dead)).toEqual({ ...nothing, missed: ['dying'] });
    },
  );
});

describe('a death', () => {
  test('is found with the lateness of its verdict after the stale time', () => {
    expect(judgeVerdicts([verdict('dying', 130)], dead).lateness_seconds).toEqual([0]);
    expect(judgeVerdicts([verdict('dying', 190)], dead).lateness_seconds).toEqual([60]);
  });

  test('is measured from the end of an ingest gap, unless the gap ended before the last heartbeat', () => {
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(150) })], dead).lateness_seconds).toEqual([10]);
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(50) })], dead).lateness_seconds).toEqual([60]);
  });

  test('is missed without a verdict, or with a verdict without its evidence', () => {
    expect(judgeVerdicts([], dead)).toEqual({ ...nothing, missed: ['dying'] });
    for (const missingField of [{ last_seen_at: null }, { stale_seconds: null }])
      expect(judgeVerdicts([verdict('dying', 131, missingField)], dead)).toEqual({ ...nothing, missed: ['dying'] });
  });
});

test('an acknowledged heartbeat is lost if the stored one is more than a second older', () => {
  expect(isLost(startedMs, startedMs)).toBe(false);
  // Two clocks may differ by this much.
  expect(isLost(startedMs, startedMs + 1_000)).toBe(false);
  expect(isLost(startedMs, startedMs + 1_001)).toBe(true);
  // The heartbeat has not been answered yet.
  expect(isLost(startedMs, 0)).toBe(false);
});

describe('a run', () => {
  const noFindings = { false_verdicts: [], held: [], missed: [] };
  test('passes without findings', () => {
    expect(brokenBy(noFindings, undefined)).toEqual([]);
    expect(brokenBy(noFindings, { lost: [] })).toEqual([]);
  });

  test.for([
    [{ ...noFindings, false_verdicts: ['one'] }, [], 'a false verdict: one'],
    [{ ...noFindings, held: ['one'] }, [], 'a verdict was held back: one'],
    [{ ...noFindings, missed: ['one'] }, [], 'died without a verdict: one'],
    [noFindings, ['one'], 'acknowledged and lost: one'],
  ] as const)('fails with a single finding: %o, %o', ([{ false_verdicts, held, missed }, lost, message]) => {
    const judged = { false_verdicts: [...false_verdicts], held: [...held], missed: [...missed] };
    expect(brokenBy(judged, { lost: [...lost] })).toEqual([message]);
  });
});
