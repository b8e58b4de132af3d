/**
 * Tests how the fleet benchmark judges its runs. A judge that misses an error would let every run
 * pass.
 */
import { describe, expect, test } from 'vitest';
import { describeFailures, isLost, judgeVerdicts, type VerdictRow } from '../bench/fleet/judge.ts';

const startedMs = Date.UTC(2026, 0, 1);
const at = (second: number) => new Date(startedMs + second * 1000);
const verdict = (name: string, second: number, overrides: Partial<VerdictRow> = {}): VerdictRow => ({
  ...{ name, kind: 'node.offline', at: at(second), summary: 'it is silent' },
  ...{ last_seen_at: at(100), gap_end: null, stale_seconds: 30 },
  ...overrides,
});
/** The machine `dying` dies 5 s after its last heartbeat. */
const deaths = new Map([['dying', at(105)]]);
const emptyResult = { false_verdicts: [], missed: [], lateness_seconds: [] };

describe('a verdict', () => {
  test('is false on a machine that did not die', () => {
    const judgement = judgeVerdicts([verdict('well', 131), verdict('dying', 131)], deaths);
    expect(judgement).toEqual({
      ...emptyResult,
      false_verdicts: ['well node.offline: it is silent'],
      lateness_seconds: [1],
    });
  });

  test('is false before the death, which counts as missed until a later verdict', () => {
    const earlyJudgement = judgeVerdicts([verdict('dying', 104)], deaths);
    expect(earlyJudgement).toEqual({
      ...emptyResult,
      false_verdicts: ['dying node.offline: it is silent'],
      missed: ['dying'],
    });
    const judgementOfBoth = judgeVerdicts([verdict('dying', 104), verdict('dying', 132)], deaths);
    expect(judgementOfBoth).toEqual({ ...earlyJudgement, missed: [], lateness_seconds: [2] });
  });

  test('is false after the death but before the end of the stale time', () => {
    const earlyResult = { ...emptyResult, false_verdicts: ['dying node.offline: it is silent'], missed: ['dying'] };
    expect(judgeVerdicts([verdict('dying', 129.9)], deaths)).toEqual(earlyResult);
    expect(judgeVerdicts([verdict('dying', 179.9, { gap_end: at(150) })], deaths)).toEqual(earlyResult);
    const judgementOfBoth = judgeVerdicts([verdict('dying', 129.9), verdict('dying', 132)], deaths);
    expect(judgementOfBoth).toEqual({ ...earlyResult, missed: [], lateness_seconds: [2] });
  });

  test('is not false if it is early only by a rounding error of the stale time', () => {
    const roundedVerdict = verdict('dying', 133.3, { stale_seconds: 33.300_000_2 });
    expect(judgeVerdicts([roundedVerdict], deaths)).toMatchObject({ false_verdicts: [], missed: [] });
  });

  test.for(['node.degraded', 'node.failed', 'node.lost', 'node.quarantined'])(
    '%s is false on a machine that did not die, and does not count as finding a death',
    (kind) => {
      expect(judgeVerdicts([verdict('well', 131, { kind })], new Map()).false_verdicts).toHaveLength(1);
      expect(judgeVerdicts([verdict('dying', 131, { kind })], deaths)).toEqual({ ...emptyResult, missed: ['dying'] });
    },
  );
});

describe('a death', () => {
  test('is found, with the delay of the verdict after the end of the stale time', () => {
    expect(judgeVerdicts([verdict('dying', 130)], deaths).lateness_seconds).toEqual([0]);
    expect(judgeVerdicts([verdict('dying', 190)], deaths).lateness_seconds).toEqual([60]);
  });

  test('counts the delay from the end of an ingest gap, unless the gap ended before the last heartbeat', () => {
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(150) })], deaths).lateness_seconds).toEqual([10]);
    expect(judgeVerdicts([verdict('dying', 190, { gap_end: at(50) })], deaths).lateness_seconds).toEqual([60]);
  });

  test('is missed if there is no verdict, or if the verdict lacks a field that judging needs', () => {
    expect(judgeVerdicts([], deaths)).toEqual({ ...emptyResult, missed: ['dying'] });
    for (const missingField of [{ last_seen_at: null }, { stale_seconds: null }])
      expect(judgeVerdicts([verdict('dying', 131, missingField)], deaths)).toEqual({
        ...emptyResult,
        missed: ['dying'],
      });
  });
});

test('an acknowledged heartbeat counts as lost if the stored one is over a second older', () => {
  expect(isLost(startedMs, startedMs)).toBe(false);
  // The clocks of the agent and the store may differ by this much.
  expect(isLost(startedMs, startedMs + 1_000)).toBe(false);
  expect(isLost(startedMs, startedMs + 1_001)).toBe(true);
  // Zero means that no heartbeat was acknowledged yet.
  expect(isLost(startedMs, 0)).toBe(false);
});

describe('a run', () => {
  const noFindings = { false_verdicts: [], held: [], missed: [] };
  test('passes without findings', () => {
    expect(describeFailures(noFindings, undefined)).toEqual([]);
    expect(describeFailures(noFindings, { lost: [] })).toEqual([]);
  });

  test.for([
    [{ ...noFindings, false_verdicts: ['one'] }, [], 'a false verdict: one'],
    [{ ...noFindings, held: ['one'] }, [], 'a verdict was held back: one'],
    [{ ...noFindings, missed: ['one'] }, [], 'died without a verdict: one'],
    [noFindings, ['one'], 'acknowledged and lost: one'],
  ] as const)(
    'fails because of a single finding: %o, lost changes %o',
    ([{ false_verdicts, held, missed }, lost, message]) => {
      const judgement = { false_verdicts: [...false_verdicts], held: [...held], missed: [...missed] };
      expect(describeFailures(judgement, { lost: [...lost] })).toEqual([message]);
    },
  );
});
