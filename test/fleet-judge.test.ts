/** What the judge of the fleet's benchmark finds in the evidence. A judge that lets anything pass would make every run look good. */
import { describe, expect, test } from 'vitest';
import { brokenBy, isLost, judgeVerdicts, type VerdictRow } from '../bench/fleet/judge.ts';

const startedMs = Date.UTC(2026, 0, 1);
const at = (second: number) => new Date(startedMs + second * 1000);
const verdict = (name: string, second: number, more: Partial<VerdictRow> = {}): VerdictRow => ({
  ...{ name, kind: 'node.offline', at: at(second), summary: 'it is silent' },
  ...{ last_seen_at: at(100), gap_end: null, stale_seconds: 30 },
  ...more,
});
/** One machine dies, a little after its last beat. */
const dead = new Map([['dying', at(105)]]);
const nothing = { false_verdicts: [], missed: [], lateness_seconds: [] };

describe('a verdict', () => {
  test('is false on a machine that did not die', () => {
    const judged = judgeVerdicts([verdict('well', 131), verdict('dying', 131)], dead);
    expect(judged).toEqual({ ...nothing, false_verdicts: ['well node.offline: it is silent'], lateness_seconds: [1] });
  });

  test('is false when it comes before the death, and does not count as having found it', () => {
    const early = judgeVerdicts([verdict('dying', 104)], dead);
    expect(early).toEqual({ ...nothing, false_verdicts: ['dying node.offline: it is silent'], missed: ['dying'] });
    const both = judgeVerdicts([verdict('dying', 104), verdict('dying', 132)], dead);
    expect(both).toEqual({ ...early, missed: [], lateness_seconds: [2] });
  });

  test('is false when it comes after the death, and before the silence it is based on was too long', () => {
    const early = { ...nothing, false_verdicts: ['dying node.offline: it is silent'], missed: ['dying'] };
    expect(judgeVerdicts([verdict('dying', 129.9)], dead)).toEqual(early);
    expect(judgeVerdicts([verdict('dying', 179.9, { gap_end: at(150) })], dead)).toEqual(early);
    const both = judgeVerdicts([verdict('dying', 129.9), verdict('dying', 132)], dead);
    expect(both).toEqual({ ...early, missed: [], lateness_seconds: [2] });
  });

  test('is not false for a stale time that no clock can say exactly', () => {
    const exactly = verdict('dying', 133.3, { stale_seconds: 33.300_000_2 });
    expect(judgeVerdicts([exactly], dead)).toMatchObject({ false_verdicts: [], missed: [] });
  });

  test.for(['node.degraded', 'node.failed', 'node.lost', 'node.quarantined'])('%s is as false', (kind) => {
    expect(judgeVerdicts([verdict('well', 131, { kind })], new Map()).false_verdicts).toHaveLength(1);
    expect(judgeVerdicts([verdict('dying', 131, { kind })], dead)).toEqual({ ...nothing, missed: ['dying'] });
  });
});

describe('a death', () => {
  test('is found as late as its verdict comes after its stale time', () => {
    expect(judgeVerdicts([verdict('dying', 130)], dead).lateness_seconds).toEqual([0]);
    expect(judgeVerdicts([verdict('dying', 190)], dead).lateness_seconds).toEqual([60]);
  });

  test('is excused for our own gap, from its end, and for none that ended before the last beat', () => {
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(150) })], dead).lateness_seconds).toEqual([10]);
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(50) })], dead).lateness_seconds).toEqual([60]);
  });

  test('is missed when no verdict ever came, or none that says what it is based on', () => {
    expect(judgeVerdicts([], dead)).toEqual({ ...nothing, missed: ['dying'] });
    for (const lacking of [{ last_seen_at: null }, { stale_seconds: null }])
      expect(judgeVerdicts([verdict('dying', 131, lacking)], dead)).toEqual({ ...nothing, missed: ['dying'] });
  });
});

test('a beat is lost when the table knows only of one well before it', () => {
  expect(isLost(startedMs, startedMs)).toBe(false);
  // By so much two clocks may differ.
  expect(isLost(startedMs, startedMs + 1_000)).toBe(false);
  expect(isLost(startedMs, startedMs + 1_001)).toBe(true);
  // One that has not been answered yet.
  expect(isLost(startedMs, 0)).toBe(false);
});

describe('a run', () => {
  const fine = { false_verdicts: [], held: [], missed: [] };
  test('is as it should be when there is nothing to say', () => {
    expect(brokenBy(fine, undefined)).toEqual([]);
    expect(brokenBy(fine, { lost: [] })).toEqual([]);
  });

  test.for([
    [{ ...fine, false_verdicts: ['one'] }, [], 'a false verdict: one'],
    [{ ...fine, held: ['one'] }, [], 'a verdict was held back: one'],
    [{ ...fine, missed: ['one'] }, [], 'died, and nobody noticed: one'],
    [fine, ['one'], 'acknowledged and lost: one'],
  ] as const)('is broken by one thing alone: %o, %o', ([{ false_verdicts, held, missed }, lost, told]) => {
    const judged = { false_verdicts: [...false_verdicts], held: [...held], missed: [...missed] };
    expect(brokenBy(judged, { lost: [...lost] })).toEqual([told]);
  });
});
