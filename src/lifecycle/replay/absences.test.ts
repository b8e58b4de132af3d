import { describe, expect, test } from 'vitest';
import type { RecordedAbsence, ReplayPolicy } from './history.ts';
import { absence, at, differencesOf, history, oneDifference, policy, replay, unknownsOf } from './testing/histories.ts';

describe('a silence', () => {
  const stale = (stale_after_seconds: number, more: Partial<ReplayPolicy> = {}) =>
    policy({ heartbeat: { stale_after_seconds }, ...more });
  const past = (overrides: Partial<RecordedAbsence> = {}) => history(policy(), { absences: [absence(overrides)] });

  test('is offline later under a longer stale time, or never if the machine was back by then', () => {
    expect(differencesOf(past(), stale(50))).toEqual(oneDifference('offline_later', 'offline', 50));
    expect(differencesOf(past({ returned_at: at(100) }), stale(50))).toEqual(
      oneDifference('offline_later', 'offline', 50),
    );
    expect(differencesOf(past({ returned_at: at(62) }), stale(90))).toEqual([['silence_spared', 'ready', undefined]]);
    expect(differencesOf(past({ interrupted_at: at(62) }), stale(90))).toEqual([
      ['silence_spared', 'ready', undefined],
    ]);
    expect(unknownsOf(past({ returned_at: at(62) }), stale(50))).toEqual([['returned', 1]]);
  });

  test('does not end when the machine fails, only when it returns', () => {
    const given_up = { at: at(60), reason: 'it did not come back in time' };
    const offlineLater = oneDifference('offline_later', 'offline', 90);
    expect(differencesOf(past({ given_up }), stale(90))).toEqual(offlineLater);
    expect(differencesOf(past({ given_up, ended: true }), stale(90))).toEqual(offlineLater);
    expect(differencesOf(past({ given_up, rescued_at: at(100) }), stale(90))).toEqual(offlineLater);
    const rescued = past({ given_up, rescued_at: at(80) });
    expect(differencesOf(rescued, stale(90))).toEqual([['silence_spared', 'ready', undefined]]);
    expect(replay(rescued, stale(90)).differences[0]?.would_be.reason).toContain('it returned 50 s after');
  });

  test('is offline sooner under a shorter stale time, and shorter silences are listed as unknown', () => {
    expect(differencesOf(past(), stale(20, { heartbeat: { stale_after_seconds: 20, interval_seconds: 5 } }))).toEqual(
      oneDifference('offline_sooner', 'offline', 20),
    );
    expect(unknownsOf(past(), policy({ heartbeat: { stale_after_seconds: 20, interval_seconds: 5 } }))).toEqual([
      ['short_silences', null],
    ]);
    // The stale time is at least three intervals.
    expect(differencesOf(past(), stale(20))).toEqual([]);
  });

  test('is judged by the interval that the machine announced', () => {
    expect(differencesOf(past({ stale_seconds: 90, at: at(90) }), stale(60))).toEqual([]);
    expect(differencesOf(past({ stale_seconds: 90, at: at(90) }), stale(120))).toEqual(
      oneDifference('offline_later', 'offline', 120),
    );
  });

  test('after a goodbye does not depend on the stale time', () => {
    expect(differencesOf(past({ by: 'goodbye', stale_seconds: null }), stale(90))).toEqual([]);
  });
});

describe('an absence', () => {
  const away = (offline_seconds: number, more: ReplayPolicy['budgets'] = {}) =>
    policy({ budgets: { offline_seconds, ...more } });
  const past = (overrides: Partial<RecordedAbsence>) => history(policy(), { absences: [absence(overrides)] });
  const given_up = { at: at(3630), reason: 'it did not come back in time' };

  test('fails sooner or later under another offline budget, or not at all', () => {
    expect(differencesOf(past({ returned_at: at(2000) }), away(600))).toEqual(
      oneDifference('absent_given_up', 'failed', 630),
    );
    expect(differencesOf(past({ returned_at: at(600) }), away(600))).toEqual([]);
    expect(differencesOf(past({ interrupted_at: at(2000) }), away(600))).toEqual(
      oneDifference('absent_sooner', 'failed', 630),
    );
    expect(differencesOf(past({ given_up }), away(600))).toEqual(oneDifference('absent_sooner', 'failed', 630));
    expect(differencesOf(past({ given_up }), away(7200))).toEqual(oneDifference('absent_later', 'failed', 7230));
    expect(replay(past({ given_up }), away(7200)).differences[0]?.sure).toBe(false);
    expect(differencesOf(past({ given_up, rescued_at: at(4000) }), away(7200))).toEqual(
      oneDifference('absent_spared', 'ready', 4000),
    );
    expect(differencesOf(past({ given_up, moved_seconds: 100 }), away(600))).toEqual(
      oneDifference('absent_sooner', 'failed', 730),
    );
  });

  test('does not differ if the machine had ended, the budget is the same, or the absence still lasts', () => {
    expect(differencesOf(past({ given_up, ended: true }), away(7200))).toEqual([]);
    expect(differencesOf(past({ given_up }), away(3600))).toEqual([]);
    expect(differencesOf(past({}), away(600))).toEqual([]);
  });

  test('says whether the machine would have been rescued, if it fails sooner', () => {
    const reasonWith = (rescue_seconds: number) =>
      replay(past({ returned_at: at(2000) }), away(600, { rescue_seconds })).differences[0]?.would_be.reason;
    expect(reasonWith(2000)).toContain('would have been rescued');
    expect(reasonWith(60)).toContain('after its rescue window');
  });
});
