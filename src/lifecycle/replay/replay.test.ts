/**
 * Generates histories under one policy and replays them under others. The true outcome of each boot
 * is known.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { differenceKinds } from './difference.ts';
import type { History, RecordedBoot, ReplayPolicy } from './history.ts';
import {
  at,
  boot,
  differencesOf,
  failedVerdict,
  history,
  oneDifference,
  policy,
  provisionPolicy,
  replay,
  unknownsOf,
} from './testing/histories.ts';

/** When a boot really arrives, if ever, and when it makes progress. */
interface Truth {
  arrives: number | null;
  signs: number[];
}
const truths = fc.record({
  arrives: fc.option(fc.integer({ min: 1, max: 3000 })),
  signs: fc.uniqueArray(fc.integer({ min: 1, max: 2500 }), { maxLength: 6 }),
});

/** The deadline under a policy, computed independently of the code under test. */
function deadlineIn({ signs }: Truth, budget: number, aware: boolean): number {
  let deadline = budget;
  for (const sign of aware ? signs.toSorted((a, b) => a - b) : [])
    if (sign <= deadline && sign < 2 * budget) deadline = Math.min(2 * budget, sign + Math.max(60, budget / 4));
  return deadline;
}

/** The record that a policy would have left. */
function recorded(truth: Truth, budget: number, aware: boolean): RecordedBoot {
  const deadline = deadlineIn(truth, budget, aware);
  const events = truth.signs
    .toSorted((a, b) => a - b)
    .filter((sign) => sign <= deadline)
    .map((sign) => ({ at: at(sign), what: 'advance' as const }));
  const base = { events, budget_seconds: budget, budget_source: 'pool' as const };
  if (truth.arrives !== null && truth.arrives <= deadline) return boot(truth.arrives, base);
  const destroyedAt = deadline + Math.max(60, budget / 2);
  if (truth.arrives !== null && truth.arrives <= destroyedAt)
    return boot(truth.arrives, { ...base, outcome: 'late', given_up: failedVerdict(deadline) });
  return boot(deadline, {
    ...base,
    outcome: 'timed_out',
    given_up: failedVerdict(deadline),
    watched_until: at(destroyedAt),
  });
}

describe('for any history', () => {
  const policies = fc.record({ budget: fc.integer({ min: 60, max: 1500 }), aware: fc.boolean() });
  const settings = ({ budget, aware }: { budget: number; aware: boolean }) =>
    provisionPolicy(budget, { progress_aware: aware });

  test('the policy in force yields no differences', () => {
    fc.assert(
      fc.property(fc.array(truths, { maxLength: 20 }), policies, (all, before) => {
        const boots = all.map((truth) => recorded(truth, before.budget, before.aware));
        const same = replay(history(settings(before), { boots }), settings(before));
        expect(same.differences).toEqual([]);
        expect(same.unknowns).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('more time never fails an arrived boot, and less never spares one', () => {
    const weights = (past: History, proposed: ReplayPolicy) =>
      new Set(replay(past, proposed).differences.map(({ kind }) => differenceKinds[kind].weight));
    fc.assert(
      fc.property(fc.array(truths, { maxLength: 20 }), fc.integer({ min: 60, max: 1500 }), (all, budget) => {
        const past = history(provisionPolicy(budget), { boots: all.map((truth) => recorded(truth, budget, false)) });
        expect(weights(past, provisionPolicy(budget * 1.5)).has('bad')).toBe(false);
        const less = replay(past, provisionPolicy(budget * 0.5)).differences.map(({ kind }) => kind);
        expect(less.filter((kind) => kind === 'boot_spared' || kind === 'boot_kept')).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('a result marked sure matches the true outcome of the boot', () => {
    fc.assert(
      fc.property(truths, policies, policies, (truth, before, after) => {
        // Progress after a failure is not recorded.
        fc.pre(truth.signs.every((sign) => sign <= deadlineIn(truth, before.budget, before.aware)));
        const past = history(settings(before), { boots: [recorded(truth, before.budget, before.aware)] });
        const { differences, unknowns } = replay(past, settings(after));
        expect(unknowns).toEqual([]);
        const deadline = deadlineIn(truth, after.budget, after.aware);
        const inTime = truth.arrives !== null && truth.arrives <= deadline;
        for (const { sure, would_be } of differences) {
          if (!sure) continue;
          expect(would_be.verdict).toBe(inTime ? 'starting' : 'failed');
          expect(would_be.at).toEqual(at(inTime ? (truth.arrives ?? 0) : deadline));
        }
        const wasInTime = truth.arrives !== null && truth.arrives <= deadlineIn(truth, before.budget, before.aware);
        const wasSeen = past.boots[0]?.outcome !== 'timed_out';
        if (wasSeen && wasInTime !== inTime) expect(differences).toHaveLength(1);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a boot', () => {
  const past = (one: RecordedBoot, given: ReplayPolicy['budgets'] = {}) =>
    history(policy({ budgets: given }), { boots: [one] });

  test('fails under a smaller budget than it needed, and is rescued only within its window', () => {
    expect(differencesOf(past(boot(700)), provisionPolicy(600))).toEqual(oneDifference('boot_given_up', 'failed', 600));
    expect(differencesOf(past(boot(700)), provisionPolicy(600, { rescue_seconds: 99 }))).toEqual(
      oneDifference('boot_lost', 'failed', 600),
    );
    expect(differencesOf(past(boot(600)), provisionPolicy(600))).toEqual([]);
  });

  test('is spared by a larger budget and lost by a shorter rescue window, if it arrived late', () => {
    const late = boot(800, { outcome: 'late', given_up: failedVerdict(720) });
    expect(differencesOf(past(late), provisionPolicy(900))).toEqual(oneDifference('boot_spared', 'starting', 800));
    expect(differencesOf(past(late), policy({ budgets: { rescue_seconds: 60 } }))).toEqual(
      oneDifference('boot_lost', 'failed', 720),
    );
    expect(differencesOf(past(late), provisionPolicy(780))).toEqual(oneDifference('late_later', 'failed', 780));
    expect(differencesOf(past(late), provisionPolicy(700))).toEqual(oneDifference('late_sooner', 'failed', 700));
  });

  test('is rescued by a longer window in an observe-only pool', () => {
    const unenforced = boot(1200, { given_up: failedVerdict(720) });
    expect(differencesOf(past(unenforced), policy({ budgets: { rescue_seconds: 600 } }))).toEqual(
      oneDifference('boot_kept', 'failed', 720),
    );
  });

  test('fails sooner under a smaller budget and later under a larger one if it was stuck, and is uncertain after its machine ended', () => {
    const stuck = boot(720, { outcome: 'timed_out', given_up: failedVerdict(720), watched_until: at(1080) });
    expect(differencesOf(past(stuck), provisionPolicy(600))).toEqual(oneDifference('stuck_sooner', 'failed', 600));
    expect(differencesOf(past(stuck), provisionPolicy(1000))).toEqual(oneDifference('stuck_later', 'failed', 1000));
    expect(replay(past(stuck), provisionPolicy(1000)).differences[0]?.sure).toBe(true);
    expect(replay(past(stuck), provisionPolicy(1100)).differences[0]).toMatchObject({
      sure: false,
      was: { verdict: 'failed', at: at(720), reason: 'provisioning timed out' },
      would_be: { reason: expect.stringContaining('it is unknown whether it would have arrived') },
    });
  });

  test('fails under a budget that it exceeded, even if it was cancelled or still runs', () => {
    expect(differencesOf(past(boot(700, { outcome: 'cancelled' })), provisionPolicy(600))).toEqual(
      oneDifference('boot_cut_short', 'failed', 600),
    );
    expect(replay(past(boot(700, { outcome: 'running' })), provisionPolicy(600)).differences[0]?.sure).toBe(true);
    expect(differencesOf(past(boot(500, { outcome: 'cancelled' })), provisionPolicy(600))).toEqual([]);
  });

  test('keeps a requested budget up to the ceiling, and a learned one', () => {
    const own = boot(700, { budget_source: 'allocation', requested_seconds: 900, budget_seconds: 900 });
    expect(differencesOf(past(own), provisionPolicy(60))).toEqual([]);
    expect(differencesOf(past(own), provisionPolicy(60, { ceiling_seconds: 600 }))).toEqual(
      oneDifference('boot_given_up', 'failed', 600),
    );
    const learned = boot(700, { budget_source: 'learned', budget_seconds: 800 });
    const learning = provisionPolicy(600, { policy: 'learned' });
    expect(differencesOf(past(learned, { policy: 'learned' }), learning)).toEqual([]);
    expect(differencesOf(past(learned, { policy: 'learned' }), provisionPolicy(600))).toEqual(
      oneDifference('boot_given_up', 'failed', 600),
    );
    expect(unknownsOf(past(boot(500)), learning)).toEqual([['learned', null]]);
  });

  test('keeps an extension by a person, even if progress alone would set an earlier deadline', () => {
    const events = [
      { at: at(100), what: 'moved' as const, seconds: 300, by_person: true },
      { at: at(200), what: 'advance' as const },
    ];
    const extended = boot(900, { events });
    expect(differencesOf(past(extended), provisionPolicy(700))).toEqual([]);
    expect(differencesOf(past(extended), provisionPolicy(500))).toEqual(oneDifference('boot_given_up', 'failed', 800));
    expect(differencesOf(past(extended), provisionPolicy(720, { progress_aware: true }))).toEqual([]);
    const byServer = boot(900, { events: events.map((event) => ({ ...event, by_person: false })) });
    expect(differencesOf(past(byServer), provisionPolicy(720, { progress_aware: true }))).toEqual(
      oneDifference('boot_given_up', 'failed', 380),
    );
    expect(differencesOf(past(byServer), provisionPolicy(720, { progress_aware: true, rescue_seconds: 360 }))).toEqual(
      oneDifference('boot_lost', 'failed', 380),
    );
  });

  test('is uncertain if progress after its failure would count, because that progress is not recorded', () => {
    const late = boot(800, { outcome: 'late', given_up: failedVerdict(720) });
    const [aware] = replay(past(late), provisionPolicy(900, { progress_aware: true })).differences;
    expect(aware).toMatchObject({ kind: 'boot_spared', sure: false });
    expect(aware?.would_be.reason).toContain('is not recorded');
    expect(replay(past(late), provisionPolicy(700, { progress_aware: true })).differences[0]?.sure).toBe(true);
  });

  test('is unknown if the policy in force does not explain the record', () => {
    const stuck = (given: RecordedBoot['given_up']) => boot(2000, { outcome: 'timed_out', given_up: given });
    expect(unknownsOf(past(stuck(failedVerdict(2000))), provisionPolicy(600))).toEqual([['moved', 1]]);
    expect(unknownsOf(past(stuck(failedVerdict(2000, { deadline_at: at(720) }))), provisionPolicy(600))).toEqual([
      ['kept', 1],
    ]);
    expect(unknownsOf(past(boot(800)), provisionPolicy(600))).toEqual([['kept', 1]]);
    expect(unknownsOf(past(boot(800)), provisionPolicy(900))).toEqual([]);
    expect(differencesOf(past(boot(800)), provisionPolicy(900))).toEqual([]);
  });
});

describe('a start-up', () => {
  const started = (seconds: number, given: Partial<RecordedBoot> = {}) =>
    history(policy(), { boots: [boot(seconds, { phase: 'start', budget_seconds: 120, ...given })] });
  const startIn = (start_seconds: number) => policy({ budgets: { start_seconds } });

  test('becomes ready sooner under a smaller budget and later under a larger one, if a rule ended it', () => {
    const promoted = started(120, { ready_by_rule: true });
    expect(differencesOf(promoted, startIn(60))).toEqual(oneDifference('ready_sooner', 'ready', 60));
    expect(differencesOf(promoted, startIn(180))).toEqual(oneDifference('ready_later', 'ready', 180));
    expect(differencesOf(promoted, provisionPolicy(60))).toEqual([]);
    expect(unknownsOf(started(400, { ready_by_rule: true }), startIn(60))).toEqual([['moved', 1]]);
  });

  test('is unknown if it reported ready after the new deadline, because heartbeats are not recorded', () => {
    expect(unknownsOf(started(100), startIn(60))).toEqual([['beats', 1]]);
    expect(unknownsOf(started(100, { outcome: 'cancelled' }), startIn(60))).toEqual([['beats', 1]]);
    expect(replay(started(100), startIn(100)).unknowns).toEqual([]);
  });

  test('is found sooner if it fell silent, unless it still sent heartbeats', () => {
    const silent = (last: number | null) =>
      started(120, {
        outcome: 'timed_out',
        given_up: failedVerdict(120, { last_seen_at: last === null ? null : at(last), stale_seconds: 30 }),
      });
    expect(differencesOf(silent(null), startIn(60))).toEqual(oneDifference('stuck_sooner', 'failed', 60));
    expect(differencesOf(silent(20), startIn(60))).toEqual(oneDifference('stuck_sooner', 'failed', 60));
    expect(differencesOf(silent(40), startIn(60))).toEqual(oneDifference('ready_instead', 'ready', 60));
    expect(unknownsOf(silent(80), startIn(60))).toEqual([['beats', 1]]);
    expect(differencesOf(silent(110), startIn(60))).toEqual(oneDifference('stuck_sooner', 'failed', 60));
    expect(differencesOf(silent(40), startIn(180))).toEqual(oneDifference('stuck_later', 'failed', 180));
  });
});

test('uses the generation of each boot, and lists the newest first', () => {
  const past = history(provisionPolicy(600), {
    generations: [
      { generation: 1, created_at: at(-10), policy: provisionPolicy(600) },
      { generation: 2, created_at: at(-5), policy: provisionPolicy(900) },
    ],
    boots: [
      boot(700, { generation: 2, budget_seconds: 900 }),
      boot(1100, { generation: 1, budget_seconds: 600, outcome: 'late', given_up: failedVerdict(600) }),
    ],
  });
  const { differencesByKind, differences, decisions } = replay(past, provisionPolicy(650));
  expect(differencesByKind).toEqual({ boot_given_up: 1, boot_lost: 1 });
  expect(decisions).toBe(2);
  expect(differences.map(({ at: when }) => when)).toEqual([at(650), at(600)]);
});

test('lists questions that no record can answer', () => {
  const past = history(policy(), { truncated: { boots: true, changes: true } });
  const proposed = policy({ mode: 'observe', budgets: { drain_seconds: 5 } });
  expect(unknownsOf(past, proposed)).toEqual([
    ['other_budgets', null],
    ['observed', null],
    ['cut_boots', null],
    ['cut_changes', null],
  ]);
  const many = Array.from({ length: 30 }, () => boot(800));
  expect(replay(history(policy(), { boots: many }), provisionPolicy(600)).unknowns).toMatchObject([
    { kind: 'kept', count: 30, node_ids: { length: 20 } },
  ]);
});
