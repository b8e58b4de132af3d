/** Histories that are made by a policy are replayed against it and against others; what each boot would have come to is known here. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../brake.ts';
import { type DifferenceKind, differenceKinds } from './difference.ts';
import type { History, RecordedAbsence, RecordedBoot, RecordedChange, RecordedHeld, ReplayPolicy } from './history.ts';
import { replaySteps, replayTotal } from './replay.ts';

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);

type Given = Partial<Omit<ReplayPolicy, 'budgets'>> & { budgets?: ReplayPolicy['budgets'] };
const policy = (given: Given = {}): ReplayPolicy => ({
  mode: 'enforce',
  budgets: {},
  server: {},
  heartbeat: {},
  brake: defaultBrakePolicy,
  external: false,
  ...given,
});

const history = (inForce: ReplayPolicy, given: Partial<History> = {}): History => ({
  pool: 'build',
  since: start,
  until: at(1e6),
  generations: [{ generation: 1, created_at: at(-1e6), policy: inForce }],
  boots: [],
  absences: [],
  changes: [],
  held: [],
  told_silences: [],
  standing: {},
  brake: defaultBrakeSettings,
  cut: { boots: false, changes: false },
  ...given,
});

const replay = (past: History, proposed: ReplayPolicy) => replayTotal(past, proposed, [...replaySteps(past, proposed)]);

let made = 0;
const ids = () => {
  made++;
  return { node_id: `node_${made}`, node_instance_id: `inst_${made}` };
};

const boot = (seconds: number, given: Partial<RecordedBoot> = {}): RecordedBoot => ({
  ...ids(),
  generation: 1,
  phase: 'provision',
  started_at: start,
  ended_at: at(seconds),
  outcome: 'completed',
  budget_seconds: 720,
  budget_source: 'default',
  requested_seconds: null,
  events: [],
  given_up: null,
  ready_by_rule: false,
  watched_until: at(seconds),
  ...given,
});

const givenUp = (seconds: number, more: Partial<RecordedBoot['given_up']> = {}): RecordedBoot['given_up'] => ({
  at: at(seconds),
  reason: 'provisioning timed out',
  deadline_at: at(seconds),
  last_seen_at: null,
  stale_seconds: null,
  ...more,
});

const absence = (given: Partial<RecordedAbsence> = {}): RecordedAbsence => ({
  ...ids(),
  generation: 1,
  at: at(30),
  by: 'liveness',
  reason: 'it has been silent for 30 s',
  stale_seconds: 30,
  budget_seconds: 3600,
  moved_seconds: 0,
  ended: false,
  back_at: null,
  given_up: null,
  rescued_at: null,
  over_at: null,
  ...given,
});

const kinds = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).differences.map(({ kind, would_be }) => [kind, would_be.verdict, would_be.at?.getTime()]);
const found = (kind: DifferenceKind, verdict: string, seconds: number) => [[kind, verdict, at(seconds).getTime()]];
const untold = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).untold.map(({ kind, count }) => [kind, count]);
const provision = (provision_seconds: number, more: ReplayPolicy['budgets'] = {}) =>
  policy({ budgets: { provision_seconds, ...more } });

/** A boot as it truly was: when it would arrive, if ever, and what it showed on the way. */
interface Truth {
  arrives: number | null;
  signs: number[];
}
const truths = fc.record({
  arrives: fc.option(fc.integer({ min: 1, max: 3000 })),
  signs: fc.uniqueArray(fc.integer({ min: 1, max: 2500 }), { maxLength: 6 }),
});

/** Where its deadline is under a policy; worked out anew here. */
function deadlineIn({ signs }: Truth, budget: number, aware: boolean): number {
  let deadline = budget;
  for (const sign of aware ? signs.toSorted((a, b) => a - b) : [])
    if (sign <= deadline && sign < 2 * budget) deadline = Math.min(2 * budget, sign + Math.max(60, budget / 4));
  return deadline;
}

/** What a policy would have put on record of it. */
function recorded(truth: Truth, budget: number, aware: boolean): RecordedBoot {
  const deadline = deadlineIn(truth, budget, aware);
  const events = truth.signs
    .toSorted((a, b) => a - b)
    .filter((sign) => sign <= deadline)
    .map((sign) => ({ at: at(sign), what: 'advance' as const }));
  const base = { events, budget_seconds: budget, budget_source: 'pool' as const };
  if (truth.arrives !== null && truth.arrives <= deadline) return boot(truth.arrives, base);
  const gone = deadline + Math.max(60, budget / 2);
  if (truth.arrives !== null && truth.arrives <= gone)
    return boot(truth.arrives, { ...base, outcome: 'late', given_up: givenUp(deadline) });
  return boot(deadline, { ...base, outcome: 'timed_out', given_up: givenUp(deadline), watched_until: at(gone) });
}

describe('of any history', () => {
  const policies = fc.record({ budget: fc.integer({ min: 60, max: 1500 }), aware: fc.boolean() });
  const settings = ({ budget, aware }: { budget: number; aware: boolean }) =>
    provision(budget, { progress_aware: aware });

  test('the policy that was in force would have decided the same', () => {
    fc.assert(
      fc.property(fc.array(truths, { maxLength: 20 }), policies, (all, before) => {
        const boots = all.map((truth) => recorded(truth, before.budget, before.aware));
        const same = replay(history(settings(before), { boots }), settings(before));
        expect(same.differences).toEqual([]);
        expect(same.untold).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('more time never gives up a boot that arrived, and less never spares one', () => {
    const weights = (past: History, proposed: ReplayPolicy) =>
      new Set(replay(past, proposed).differences.map(({ kind }) => differenceKinds[kind].weight));
    fc.assert(
      fc.property(fc.array(truths, { maxLength: 20 }), fc.integer({ min: 60, max: 1500 }), (all, budget) => {
        const past = history(provision(budget), { boots: all.map((truth) => recorded(truth, budget, false)) });
        expect(weights(past, provision(budget * 1.5)).has('bad')).toBe(false);
        const less = replay(past, provision(budget * 0.5)).differences.map(({ kind }) => kind);
        expect(less.filter((kind) => kind === 'boot_spared' || kind === 'boot_kept')).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('what it says of a boot is what that boot would truly have come to, wherever it is sure', () => {
    fc.assert(
      fc.property(truths, policies, policies, (truth, before, after) => {
        // Nothing is on record of what it would have shown after it was given up.
        fc.pre(truth.signs.every((sign) => sign <= deadlineIn(truth, before.budget, before.aware)));
        const past = history(settings(before), { boots: [recorded(truth, before.budget, before.aware)] });
        const { differences, untold: open } = replay(past, settings(after));
        expect(open).toEqual([]);
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

  test('that arrived is given up by a smaller budget, and taken back inside its window only', () => {
    expect(kinds(past(boot(700)), provision(600))).toEqual(found('boot_given_up', 'failed', 600));
    expect(kinds(past(boot(700)), provision(600, { rescue_seconds: 99 }))).toEqual(found('boot_lost', 'failed', 600));
    expect(kinds(past(boot(600)), provision(600))).toEqual([]);
  });

  test('that came late is spared by a larger one, and lost by a shorter rescue window', () => {
    const late = boot(800, { outcome: 'late', given_up: givenUp(720) });
    expect(kinds(past(late), provision(900))).toEqual(found('boot_spared', 'starting', 800));
    expect(kinds(past(late), policy({ budgets: { rescue_seconds: 60 } }))).toEqual(found('boot_lost', 'failed', 720));
    expect(kinds(past(late), provision(780))).toEqual(found('late_later', 'failed', 780));
    expect(kinds(past(late), provision(700))).toEqual(found('late_sooner', 'failed', 700));
  });

  test('that was only told of in an observed pool is taken back by a longer window', () => {
    const told = boot(1200, { given_up: givenUp(720) });
    expect(kinds(past(told), policy({ budgets: { rescue_seconds: 600 } }))).toEqual(found('boot_kept', 'failed', 720));
  });

  test('that was stuck is found sooner or later; beyond the end of its machine nobody knows', () => {
    const stuck = boot(720, { outcome: 'timed_out', given_up: givenUp(720), watched_until: at(1080) });
    expect(kinds(past(stuck), provision(600))).toEqual(found('stuck_sooner', 'failed', 600));
    expect(kinds(past(stuck), provision(1000))).toEqual(found('stuck_later', 'failed', 1000));
    expect(replay(past(stuck), provision(1000)).differences[0]?.sure).toBe(true);
    expect(replay(past(stuck), provision(1100)).differences[0]).toMatchObject({
      sure: false,
      was: { verdict: 'failed', at: at(720), reason: 'provisioning timed out' },
      would_be: { reason: expect.stringContaining('nobody knows whether it would have come') },
    });
  });

  test('that somebody ended, or that still runs, would have been given up before', () => {
    expect(kinds(past(boot(700, { outcome: 'cancelled' })), provision(600))).toEqual(
      found('boot_cut_short', 'failed', 600),
    );
    expect(replay(past(boot(700, { outcome: 'running' })), provision(600)).differences[0]?.sure).toBe(true);
    expect(kinds(past(boot(500, { outcome: 'cancelled' })), provision(600))).toEqual([]);
  });

  test('keeps what its allocation asked for, up to the ceiling, and what was learned where that goes on', () => {
    const own = boot(700, { budget_source: 'allocation', requested_seconds: 900, budget_seconds: 900 });
    expect(kinds(past(own), provision(60))).toEqual([]);
    expect(kinds(past(own), provision(60, { ceiling_seconds: 600 }))).toEqual(found('boot_given_up', 'failed', 600));
    const learned = boot(700, { budget_source: 'learned', budget_seconds: 800 });
    const learning = provision(600, { policy: 'learned' });
    expect(kinds(past(learned, { policy: 'learned' }), learning)).toEqual([]);
    expect(kinds(past(learned, { policy: 'learned' }), provision(600))).toEqual(found('boot_given_up', 'failed', 600));
    expect(untold(past(boot(500)), learning)).toEqual([['learned', null]]);
  });

  test('keeps what a person granted, also where advance would have taken it away', () => {
    const events = [
      { at: at(100), what: 'moved' as const, seconds: 300, by_person: true },
      { at: at(200), what: 'advance' as const },
    ];
    const extended = boot(900, { events });
    expect(kinds(past(extended), provision(700))).toEqual([]);
    expect(kinds(past(extended), provision(500))).toEqual(found('boot_given_up', 'failed', 800));
    expect(kinds(past(extended), provision(720, { progress_aware: true }))).toEqual([]);
    const unsaid = boot(900, { events: events.map((event) => ({ ...event, by_person: false })) });
    expect(kinds(past(unsaid), provision(720, { progress_aware: true }))).toEqual(
      found('boot_given_up', 'failed', 380),
    );
    expect(kinds(past(unsaid), provision(720, { progress_aware: true, rescue_seconds: 360 }))).toEqual(
      found('boot_lost', 'failed', 380),
    );
  });

  test('that was given up showed nothing any more, so what advance would have made of it is not certain', () => {
    const late = boot(800, { outcome: 'late', given_up: givenUp(720) });
    const [aware] = replay(past(late), provision(900, { progress_aware: true })).differences;
    expect(aware).toMatchObject({ kind: 'boot_spared', sure: false });
    expect(aware?.would_be.reason).toContain('is not on record');
    expect(replay(past(late), provision(700, { progress_aware: true })).differences[0]?.sure).toBe(true);
  });

  test('says nothing where the policy in force does not explain what happened', () => {
    const stuck = (given: RecordedBoot['given_up']) => boot(2000, { outcome: 'timed_out', given_up: given });
    expect(untold(past(stuck(givenUp(2000))), provision(600))).toEqual([['moved', 1]]);
    expect(untold(past(stuck(givenUp(2000, { deadline_at: at(720) }))), provision(600))).toEqual([['kept', 1]]);
    expect(untold(past(boot(800)), provision(600))).toEqual([['kept', 1]]);
    expect(untold(past(boot(800)), provision(900))).toEqual([]);
    expect(kinds(past(boot(800)), provision(900))).toEqual([]);
  });
});

describe('a start-up', () => {
  const started = (seconds: number, given: Partial<RecordedBoot> = {}) =>
    history(policy(), { boots: [boot(seconds, { phase: 'start', budget_seconds: 120, ...given })] });
  const startIn = (start_seconds: number) => policy({ budgets: { start_seconds } });

  test('that a rule called over would have been over sooner or later', () => {
    const promoted = started(120, { ready_by_rule: true });
    expect(kinds(promoted, startIn(60))).toEqual(found('ready_sooner', 'ready', 60));
    expect(kinds(promoted, startIn(180))).toEqual(found('ready_later', 'ready', 180));
    expect(kinds(promoted, provision(60))).toEqual([]);
    expect(untold(started(400, { ready_by_rule: true }), startIn(60))).toEqual([['moved', 1]]);
  });

  test('that said ready after another deadline cannot be told, since beats are not kept', () => {
    expect(untold(started(100), startIn(60))).toEqual([['beats', 1]]);
    expect(untold(started(100, { outcome: 'cancelled' }), startIn(60))).toEqual([['beats', 1]]);
    expect(replay(started(100), startIn(100)).untold).toEqual([]);
  });

  test('that fell silent is found sooner, unless it still beat then', () => {
    const silent = (last: number | null) =>
      started(120, {
        outcome: 'timed_out',
        given_up: givenUp(120, { last_seen_at: last === null ? null : at(last), stale_seconds: 30 }),
      });
    expect(kinds(silent(null), startIn(60))).toEqual(found('stuck_sooner', 'failed', 60));
    expect(kinds(silent(20), startIn(60))).toEqual(found('stuck_sooner', 'failed', 60));
    expect(kinds(silent(40), startIn(60))).toEqual(found('ready_instead', 'ready', 60));
    expect(untold(silent(80), startIn(60))).toEqual([['beats', 1]]);
    expect(kinds(silent(110), startIn(60))).toEqual(found('stuck_sooner', 'failed', 60));
    expect(kinds(silent(40), startIn(180))).toEqual(found('stuck_later', 'failed', 180));
  });
});

describe('a silence', () => {
  const stale = (stale_after_seconds: number, more: Given = {}) =>
    policy({ heartbeat: { stale_after_seconds }, ...more });
  const past = (given: Partial<RecordedAbsence> = {}) => history(policy(), { absences: [absence(given)] });

  test('is called offline later, or not at all where the machine was back by then', () => {
    expect(kinds(past(), stale(50))).toEqual(found('offline_later', 'offline', 50));
    expect(kinds(past({ back_at: at(100) }), stale(50))).toEqual(found('offline_later', 'offline', 50));
    expect(kinds(past({ back_at: at(62) }), stale(90))).toEqual([['silence_spared', 'ready', undefined]]);
    expect(kinds(past({ over_at: at(62) }), stale(90))).toEqual([['silence_spared', 'ready', undefined]]);
    expect(untold(past({ back_at: at(62) }), stale(50))).toEqual([['returned', 1]]);
  });

  test('is called offline sooner; shorter ones left no record, and that is said', () => {
    expect(kinds(past(), stale(20, { heartbeat: { stale_after_seconds: 20, interval_seconds: 5 } }))).toEqual(
      found('offline_sooner', 'offline', 20),
    );
    expect(untold(past(), policy({ heartbeat: { stale_after_seconds: 20, interval_seconds: 5 } }))).toEqual([
      ['short_silences', null],
    ]);
    // Nobody is stale before three of its intervals.
    expect(kinds(past(), stale(20))).toEqual([]);
  });

  test('of a machine with an interval of its own is judged by that', () => {
    expect(kinds(past({ stale_seconds: 90, at: at(90) }), stale(60))).toEqual([]);
    expect(kinds(past({ stale_seconds: 90, at: at(90) }), stale(120))).toEqual(found('offline_later', 'offline', 120));
  });

  test('that ends in a goodbye has no threshold', () => {
    expect(kinds(past({ by: 'goodbye', stale_seconds: null }), stale(90))).toEqual([]);
  });
});

describe('an absence', () => {
  const away = (offline_seconds: number, more: ReplayPolicy['budgets'] = {}) =>
    policy({ budgets: { offline_seconds, ...more } });
  const past = (given: Partial<RecordedAbsence>) => history(policy(), { absences: [absence(given)] });
  const given_up = { at: at(3630), reason: 'it did not come back in time' };

  test('is given up sooner though the machine came back, or later', () => {
    expect(kinds(past({ back_at: at(2000) }), away(600))).toEqual(found('absent_given_up', 'failed', 630));
    expect(kinds(past({ back_at: at(600) }), away(600))).toEqual([]);
    expect(kinds(past({ over_at: at(2000) }), away(600))).toEqual(found('absent_sooner', 'failed', 630));
    expect(kinds(past({ given_up }), away(600))).toEqual(found('absent_sooner', 'failed', 630));
    expect(kinds(past({ given_up }), away(7200))).toEqual(found('absent_later', 'failed', 7230));
    expect(replay(past({ given_up }), away(7200)).differences[0]?.sure).toBe(false);
    expect(kinds(past({ given_up, rescued_at: at(4000) }), away(7200))).toEqual(found('absent_spared', 'ready', 4000));
    expect(kinds(past({ given_up, moved_seconds: 100 }), away(600))).toEqual(found('absent_sooner', 'failed', 730));
  });

  test('of a machine that had ended, or with the time it had, is as it was', () => {
    expect(kinds(past({ given_up, ended: true }), away(7200))).toEqual([]);
    expect(kinds(past({ given_up }), away(3600))).toEqual([]);
    expect(kinds(past({}), away(600))).toEqual([]);
  });

  test('says whether it would have been taken back when it returned', () => {
    const says = (rescue_seconds: number) =>
      replay(past({ back_at: at(2000) }), away(600, { rescue_seconds })).differences[0]?.would_be.reason;
    expect(says(2000)).toContain('taken back');
    expect(says(60)).toContain('after its rescue window');
  });
});

describe('the brake', () => {
  const offline = (count: number, seconds: number): RecordedChange[] =>
    Array.from({ length: count }, () => ({
      ...ids(),
      at: at(seconds),
      from: 'ready',
      to: 'offline',
      by: 'liveness',
      reason: 'it has been silent',
    }));
  const held = (count: number, seconds: number): RecordedHeld[] =>
    offline(count, seconds).map(({ from: _, by, ...each }) => ({ ...each, rule: by, reason: '6 of 20 machines' }));
  const brake = (fraction: number, min_nodes: number) => policy({ brake: { fraction, min_nodes } });
  const counts = (past: History, proposed: ReplayPolicy) => replay(past, proposed).otherwise;

  test('holds what was written, where fewer are too many, and counts the fleet as it stood then', () => {
    const past = history(brake(0.5, 5), { changes: offline(6, 100), standing: { ready: 14, offline: 6 } });
    expect(counts(past, brake(0.5, 5))).toEqual({});
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
    expect(counts(past, brake(0.3, 5))).toEqual({});
    expect(counts(past, brake(0.2, 7))).toEqual({});
    expect(replay(past, brake(0.2, 5)).differences[0]).toMatchObject({
      rule: 'liveness',
      was: { verdict: 'offline' },
      would_be: { verdict: 'held' },
    });
  });

  test('adds up what falls within its window, and not what falls outside', () => {
    const spread = (seconds: number) =>
      history(brake(0.9, 5), {
        changes: [...offline(3, 100), ...offline(3, 100 + seconds)],
        standing: { ready: 14, offline: 6 },
      });
    expect(counts(spread(59), brake(0.2, 5))).toEqual({ held: 3 });
    expect(counts(spread(61), brake(0.2, 5))).toEqual({});
  });

  test('lets go what was held, where more are allowed', () => {
    const past = history(brake(0.2, 5), { held: held(6, 100), standing: { ready: 20 } });
    expect(counts(past, brake(0.2, 5))).toEqual({});
    expect(counts(past, brake(0.5, 5))).toEqual({ not_held: 6 });
    expect(replay(past, brake(0.5, 5)).differences[0]).toMatchObject({
      was: { verdict: 'held', reason: '6 of 20 machines' },
      would_be: { verdict: 'offline' },
    });
  });

  test('says nothing of what another hold kept back', () => {
    const past = history(brake(0.9, 5), { held: held(6, 100), standing: { ready: 20 } });
    expect(counts(past, brake(0.95, 5))).toEqual({});
  });

  test('lets a hold end when all whom it held are back', () => {
    const first = offline(6, 100);
    const back = first.map(
      (each) => ({ ...each, at: at(150), from: 'offline', to: 'ready', by: 'heartbeat-returned' }) as const,
    );
    const changes = [...first, ...back, ...offline(1, 900)];
    const past = history(brake(0.9, 5), { changes, standing: { ready: 19, offline: 1 } });
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
    const stays = history(brake(0.9, 5), {
      changes: [...first, ...offline(1, 900)],
      standing: { ready: 13, offline: 7 },
    });
    expect(counts(stays, brake(0.2, 5))).toEqual({ held: 7 });
  });

  test('lets a hold end with its time', () => {
    const { mass_failure_seconds } = defaultBrakeSettings;
    const another = (seconds: number) =>
      history(brake(0.9, 5), {
        changes: [...offline(6, 100), ...offline(1, 100 + seconds)],
        standing: { ready: 13, offline: 7 },
      });
    expect(counts(another(mass_failure_seconds - 1), brake(0.2, 5))).toEqual({ held: 7 });
    expect(counts(another(mass_failure_seconds), brake(0.2, 5))).toEqual({ held: 6 });
  });

  test('takes the share of the fleet as it had grown by then', () => {
    const grown = Array.from({ length: 90 }, () => ({ ...offline(1, 500)[0], from: 'new', to: 'ready', by: 'join' }));
    const changes = [...offline(6, 100), ...grown, ...offline(6, 9000)] as RecordedChange[];
    const past = history(brake(0.9, 5), { changes, standing: { ready: 98, offline: 12 } });
    expect(replay(past, brake(0.2, 5)).differences.map(({ at: when }) => when)).toEqual(Array(6).fill(at(100)));
  });

  test('counts one that was held and then decided on once', () => {
    const [one, ...rest] = held(6, 100);
    if (!one) throw new Error('nobody is held');
    const later: RecordedChange = { ...one, at: at(3700), from: 'ready', to: 'offline', by: 'liveness' };
    const past = history(brake(0.2, 5), {
      held: [one, ...rest],
      changes: [later],
      standing: { ready: 19, offline: 1 },
    });
    expect(counts(past, brake(0.5, 5))).toEqual({ not_held: 6 });
  });

  test('pauses launches, or not, where deadlines fail many at once', () => {
    const failed = offline(6, 100).map(
      (each) => ({ ...each, from: 'provisioning', to: 'failed', by: 'provision-deadline' }) as const,
    );
    const past = (inForce: ReplayPolicy) =>
      history(inForce, { changes: failed, standing: { failed: 6, provisioning: 14 } });
    expect(counts(past(brake(0.9, 5)), brake(0.2, 5))).toEqual({ launches_paused: 1 });
    expect(counts(past(brake(0.2, 5)), brake(0.9, 5))).toEqual({ launches_not_paused: 1 });
    expect(replay(past(brake(0.9, 5)), brake(0.2, 5)).differences[0]?.node_id).toBe(failed.at(-1)?.node_id);
  });

  test('is judged by the policy that was in force at the time', () => {
    const past = history(brake(0.2, 5), { changes: offline(6, 100), standing: { ready: 14, offline: 6 } });
    past.generations.unshift({ generation: 0, created_at: at(-2e6), policy: brake(0.2, 5) });
    past.generations.push({ generation: 2, created_at: at(200), policy: brake(0.2, 5) });
    if (past.generations[1]) past.generations[1].policy = brake(0.5, 5);
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
  });
});

test('each boot is judged by the generation that it was made from, and the newest comes first', () => {
  const past = history(provision(600), {
    generations: [
      { generation: 1, created_at: at(-10), policy: provision(600) },
      { generation: 2, created_at: at(-5), policy: provision(900) },
    ],
    boots: [
      boot(700, { generation: 2, budget_seconds: 900 }),
      boot(1100, { generation: 1, budget_seconds: 600, outcome: 'late', given_up: givenUp(600) }),
    ],
  });
  const { otherwise, differences, decisions } = replay(past, provision(650));
  expect({ otherwise, decisions }).toEqual({ otherwise: { boot_given_up: 1, boot_lost: 1 }, decisions: 2 });
  expect(differences.map(({ at: when }) => when)).toEqual([at(650), at(600)]);
});

test('what no record can answer is said', () => {
  const past = history(policy(), { cut: { boots: true, changes: true } });
  const asked = policy({ mode: 'observe', budgets: { drain_seconds: 5 } });
  expect(untold(past, asked)).toEqual([
    ['other_budgets', null],
    ['observed', null],
    ['cut_boots', null],
    ['cut_changes', null],
  ]);
  const many = Array.from({ length: 30 }, () => boot(800));
  expect(replay(history(policy(), { boots: many }), provision(600)).untold).toMatchObject([
    { kind: 'kept', count: 30, node_ids: { length: 20 } },
  ]);
});

describe('in words', () => {
  /** Which rule, what was and what would be, with their moments; a mark for what is not certain. */
  const lines = (past: History, ...proposed: ReplayPolicy[]) =>
    proposed.flatMap((each) =>
      replay(past, each).differences.map(({ kind, rule, at: first, was, would_be, sure }) => {
        const clock = (moment: Date | null) => moment && (moment.getTime() - start.getTime()) / 1000;
        const said = [was, would_be].map((one) => `${one.verdict} at ${clock(one.at)} (${one.reason})`);
        return `${clock(first)} ${kind} by ${rule}: ${said.join(' → ')}${sure ? '' : ' ?'}`;
      }),
    );

  test('boots', () => {
    const boots = [
      boot(700),
      boot(800, { outcome: 'late', given_up: givenUp(720) }),
      boot(720, { outcome: 'timed_out', given_up: givenUp(720), watched_until: at(1080) }),
      boot(700, { outcome: 'cancelled' }),
      boot(700, { outcome: 'running' }),
      boot(690, { events: [{ at: at(10), what: 'moved', seconds: 60, by_person: true }] }),
    ];
    const start_ups = [
      boot(120, { phase: 'start', budget_seconds: 120, ready_by_rule: true }),
      boot(120, {
        ...{ phase: 'start', budget_seconds: 120, outcome: 'timed_out' },
        given_up: givenUp(120, { last_seen_at: at(40), stale_seconds: 30 }),
      }),
    ];
    const policies = [
      provision(600, { rescue_seconds: 150, start_seconds: 60 }),
      provision(780, { start_seconds: 200 }),
      provision(1200, { progress_aware: true }),
    ];
    expect(lines(history(policy(), { boots: [...boots, ...start_ups] }), ...policies)).toMatchInlineSnapshot(`
      [
        "660 boot_given_up by provision-deadline: starting at 690 (it registered after 690 s) → failed at 660 (waited 660 s, budget of 600 s from pool, deadline moved by 60 s; it arrived 30 s later and would have been taken back)",
        "600 boot_given_up by provision-deadline: starting at 700 (it registered after 700 s) → failed at 600 (waited 600 s, budget of 600 s from pool; it arrived 100 s later and would have been taken back)",
        "600 boot_lost by provision-deadline: failed at 720 (provisioning timed out) → failed at 600 (waited 600 s, budget of 600 s from pool; it arrived after its rescue window)",
        "600 stuck_sooner by provision-deadline: failed at 720 (provisioning timed out) → failed at 600 (waited 600 s, budget of 600 s from pool)",
        "600 boot_cut_short by provision-deadline: provisioning at 700 (it was ended by somebody or something else) → failed at 600 (waited 600 s, budget of 600 s from pool; nobody knows whether it would have come) ?",
        "600 boot_cut_short by provision-deadline: provisioning at 700 (it is still on its way) → failed at 600 (waited 600 s, budget of 600 s from pool; nobody knows whether it would have come)",
        "60 ready_sooner by stuck-starting: ready at 120 (it beat, and start-up had to be over) → ready at 60 (if it beat by then (waited 60 s, budget of 60 s from pool)) ?",
        "60 ready_instead by stuck-starting: failed at 120 (provisioning timed out) → ready at 60 (it still beat when start-up was to be over (waited 60 s, budget of 60 s from pool))",
        "720 late_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 780 (waited 780 s, budget of 780 s from pool; it arrived later and would have been taken back)",
        "720 stuck_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 780 (waited 780 s, budget of 780 s from pool)",
        "120 ready_later by stuck-starting: ready at 120 (it beat, and start-up had to be over) → ready at 200 (at the latest, unless it says so itself before (waited 200 s, budget of 200 s from pool)) ?",
        "120 stuck_later by start-deadline: failed at 120 (provisioning timed out) → failed at 200 (waited 200 s, budget of 200 s from pool; nobody watched it for so long, so nobody knows whether it would have come; what it showed after it was given up is not on record) ?",
        "720 boot_spared by provision-deadline: failed at 720 (provisioning timed out) → starting at 800 (it registered after 800 s; what it showed after it was given up is not on record) ?",
        "720 stuck_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 1200 (waited 1200 s, budget of 1200 s from pool; nobody watched it for so long, so nobody knows whether it would have come; what it showed after it was given up is not on record) ?",
      ]
    `);
  });

  test('absences', () => {
    const absences = [
      absence({ back_at: at(62) }),
      absence({ back_at: at(2000) }),
      absence({ over_at: at(62) }),
      absence({ over_at: at(2000) }),
      absence({ given_up: { at: at(3630), reason: 'it did not come back' } }),
      absence({ given_up: { at: at(3630), reason: 'it did not come back' }, rescued_at: at(4000) }),
      absence({ by: 'goodbye', stale_seconds: null, budget_seconds: null, back_at: at(4000) }),
    ];
    const policies = [
      policy({ heartbeat: { stale_after_seconds: 90.25 } }),
      policy({ heartbeat: { stale_after_seconds: 15, interval_seconds: 5 } }),
      policy({ budgets: { offline_seconds: 20, rescue_seconds: 100 } }),
      policy({ budgets: { offline_seconds: 7200 } }),
    ];
    expect(lines(history(policy(), { absences }), ...policies)).toMatchInlineSnapshot(`
      [
        "30 silence_spared by liveness: offline at 30 (it has been silent for 30 s) → ready at null (it was back 32 s after it was called offline (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (it has been silent for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 silence_spared by liveness: offline at 30 (it has been silent for 30 s) → ready at null (it was taken out of service 32 s after it was called offline (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (it has been silent for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (it has been silent for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (it has been silent for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (it has been silent for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "50 absent_given_up by offline-deadline: ready at 62 (it was back) → failed at 50 (away for 20 s; it would have been taken back when it returned)",
        "50 absent_given_up by offline-deadline: ready at 2000 (it was back) → failed at 50 (away for 20 s; it returned after its rescue window)",
        "50 absent_sooner by offline-deadline: offline at 62 (it was taken out of service) → failed at 50 (away for 20 s; before it was taken out of service)",
        "50 absent_sooner by offline-deadline: offline at 2000 (it was taken out of service) → failed at 50 (away for 20 s; before it was taken out of service)",
        "50 absent_sooner by offline-deadline: failed at 3630 (it did not come back) → failed at 50 (away for 20 s)",
        "50 absent_sooner by offline-deadline: failed at 3630 (it did not come back) → failed at 50 (away for 20 s)",
        "50 absent_given_up by offline-deadline: ready at 4000 (it was back) → failed at 50 (away for 20 s; it returned after its rescue window)",
        "3630 absent_later by offline-deadline: failed at 3630 (it did not come back) → failed at 7230 (away for 7200 s; unless it comes back before) ?",
        "3630 absent_spared by offline-deadline: failed at 3630 (it did not come back) → ready at 4000 (it was back before its deadline)",
      ]
    `);
  });

  test('the brake', () => {
    const change = (by: string, from: 'ready' | 'provisioning', to: 'offline' | 'failed', seconds: number) =>
      Array.from({ length: 5 }, () => ({ ...ids(), at: at(seconds), from, to, by, reason: 'why' }));
    const changes = [
      ...change('liveness', 'ready', 'offline', 100),
      ...change('provision-deadline', 'provisioning', 'failed', 200),
    ];
    const held = change('liveness', 'ready', 'offline', 9000).map(({ by, from: _, ...each }) => ({
      ...each,
      rule: by,
    }));
    const tight = policy({ brake: { fraction: 0.2, min_nodes: 5 } });
    const loose = policy({ brake: { fraction: 0.9, min_nodes: 5 } });
    const standing = { ready: 10, offline: 5, provisioning: 10, failed: 5 };
    expect(lines(history(loose, { changes, standing }), tight).toSorted()).toMatchInlineSnapshot(`
      [
        "100 held by liveness: offline at 100 (why) → held at 100 (too many at once; until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many at once; until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many at once; until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many at once; until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many at once; until 2030-01-01T01:01:40.000Z at the latest)",
        "200 launches_paused by provision-deadline: launches go on at 200 (not too many at once) → launches paused at 200 (too many failed at once; this one was the last of them)",
      ]
    `);
    const past = history(tight, {
      held,
      changes: change('provision-deadline', 'provisioning', 'failed', 200),
      standing,
    });
    expect(lines(past, loose).toSorted()).toMatchInlineSnapshot(`
      [
        "200 launches_not_paused by provision-deadline: launches paused at 200 (too many failed at once; this one was the last of them) → launches go on at 200 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
      ]
    `);
  });
});
