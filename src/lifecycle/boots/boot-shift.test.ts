import { describe, expect, it } from 'vitest';
import { moment } from '../../base/clock.ts';
import { type DatedBoot, findShift, type ShiftQuestion, defaultBootShiftSettings as settings } from './boot-shift.ts';
import { findSlowerStages } from './shift-stages.ts';

const day = 86_400;
const from = Date.UTC(2026, 0, 1);
const boots_a_day = 40;
const budget_seconds = 720;

/** A random number generator that repeats for the same seed. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const normalOf = (roll: () => number) => Math.sqrt(-2 * Math.log(1 - roll())) * Math.cos(2 * Math.PI * roll());

interface StagedBoot extends DatedBoot {
  stages: { name: string; seconds: number; parent?: string }[];
}

type Shape = (place: number, started_at: Date) => { pull?: number; setup?: number; stuck?: number };

/**
 * A healthy cold boot in three stages, as measured. Each stage varies independently, and one boot
 * in twenty takes much longer.
 */
function fleet(seed: number, count: number, shape: Shape = () => ({}), a_day = boots_a_day): StagedBoot[] {
  const roll = dice(seed);
  const normal = () => normalOf(roll);
  return Array.from({ length: count }, (_, place) => {
    const started_at = moment(from + ((place + roll()) * day * 1000) / a_day);
    const { pull = 1, setup = 1, stuck = 0 } = shape(place, started_at);
    const tail = roll() < 0.05 ? 1 + 2 * roll() : 1;
    const parts = {
      'boot-os': 42 * Math.exp(0.2 * normal()),
      'pull-image': 140 * pull * Math.exp(0.35 * normal()),
      'set-up': 238 * setup * tail * Math.exp(0.2 * normal()),
    };
    const seconds = Object.values(parts).reduce((sum, part) => sum + part, 0);
    const stages = Object.entries(parts).map(([name, took]) => ({ name, seconds: took, parent: 'script' }));
    const isStuck = roll() < stuck || seconds > 1.5 * budget_seconds;
    if (isStuck) return { started_at, seconds: budget_seconds, outcome: 'timed_out', stages: [] };
    return { started_at, seconds, outcome: seconds > budget_seconds ? 'late' : 'completed', stages };
  });
}

const detect = (boots: readonly StagedBoot[], overrides: Partial<ShiftQuestion> = {}) => {
  const now = moment((boots.at(-1)?.started_at.getTime() ?? from) + 600_000);
  return findShift(boots, { now, budget_seconds, settings, is_known: false, ...overrides });
};

/** Tests repeatedly while boots arrive, as the sweep does, until a shift is detected. */
const firstDetection = (boots: readonly StagedBoot[], first: number, step: number) => {
  for (let count = first; count <= boots.length; count += step) {
    const shift = detect(boots.slice(0, count));
    if (shift) return { shift, count };
  }
  return undefined;
};

/** Slows down or speeds up all boots of six hours together, as a busy host or registry would. */
function weather(seed: number): Shape {
  const roll = dice(seed);
  const luck = Array.from({ length: 60 }, () => Math.exp(0.25 * normalOf(roll)));
  return (_, started_at) => {
    const factor = luck[Math.floor((started_at.getTime() - from) / 21_600_000) % luck.length] ?? 1;
    return { pull: factor, setup: factor };
  };
}

const seeds = (count: number) => Array.from({ length: count }, (_, seed) => seed + 1);
const alarms = (count: number, shape?: Shape) =>
  seeds(count).filter((seed) => firstDetection(fleet(seed, 400, shape), 70, 22)).length;

describe('unchanged boots', () => {
  it('raise at most three alarms in 300 fleets that are tested repeatedly', () => {
    expect(alarms(300)).toBeLessThanOrEqual(3);
  });
  it('raise at most one alarm in 40 fleets if boots of the same hours are correlated', () => {
    const alarmed = seeds(40).filter((seed) => firstDetection(fleet(seed, 400, weather(seed * 7919)), 70, 22));
    expect(alarmed.length).toBeLessThanOrEqual(1);
  });
  it('raise at most one alarm in 20 fleets after three nights, if they are slower every night', () => {
    const nightly: Shape = (_, started_at) => ({ setup: started_at.getUTCHours() < 9 ? 1.8 : 1 });
    const week = seeds(20).map((seed) => fleet(seed, 7 * 120, nightly, 120));
    expect(week.filter((boots) => firstDetection(boots, 3 * 120, 30)).length).toBeLessThanOrEqual(1);
  });
});

const changed = 240;
const since = (place: number) => place >= changed;
const slowPull: Shape = (place) => ({ pull: since(place) ? 2 : 1 });

describe('an image pull that takes a third of the boot and becomes twice as slow', () => {
  const detections = seeds(100).map((seed) => {
    const boots = fleet(seed, changed + 60, slowPull);
    return { boots, shift: firstDetection(boots, changed + 20, 5)?.shift };
  });
  it('is detected within sixty boots', () => {
    expect(detections.filter(({ shift }) => shift).length).toBeGreaterThanOrEqual(0.95 * detections.length);
  });
  it('is dated to within a quarter of a day', () => {
    const errors = detections.flatMap(({ boots, shift }) =>
      shift ? [Math.abs(shift.since.getTime() - (boots[changed]?.started_at.getTime() ?? 0)) / 1000] : [],
    );
    expect(errors.filter((seconds) => seconds <= day / 4).length).toBeGreaterThanOrEqual(0.9 * errors.length);
  });
  it('is named as the slower stage', () => {
    const stages = detections.flatMap(({ shift }) => {
      if (!shift) return [];
      const [former, slower] = [shift.former, shift.slower].map((boots) => boots.map(({ stages }) => stages));
      return [findSlowerStages(former ?? [], slower ?? [], shift.slower_seconds - shift.former_seconds)[0]?.stage];
    });
    expect(stages.filter((stage) => stage === 'pull-image').length).toBeGreaterThanOrEqual(0.97 * stages.length);
  });
});

describe('an alarm', () => {
  it('is not raised for faster boots', () => expect(alarms(40, (place) => ({ pull: since(place) ? 0.4 : 1 }))).toBe(0));
  it.each([0.3, 0.7, 1])('is not raised for an outage in which a share of %d of the boots never arrives', (share) => {
    expect(alarms(40, (place) => ({ stuck: since(place) ? share : 0.02 }))).toBe(0);
  });
  it('is not raised for one second more, far from the budget', () => {
    const small = fleet(3, 300, slowPull).map((boot) => ({ ...boot, seconds: boot.seconds / 100 }));
    expect(detect(small)).toBeUndefined();
    expect(detect(small, { budget_seconds: 10 })).toBeDefined();
  });
  it('is not raised for too few boots', () => {
    expect(detect(fleet(1, changed + settings.fewest_boots - 1, (place) => ({ pull: since(place) ? 9 : 1 })))).toBe(
      undefined,
    );
    expect(detect(fleet(1, settings.fewest_former_boots + 19, (place) => ({ pull: place >= 49 ? 9 : 1 })))).toBe(
      undefined,
    );
    expect(detect([])).toBeUndefined();
  });
  it('is raised for slower boots even if many of them never arrive', () => {
    const both: Shape = (place) => ({ pull: since(place) ? 2 : 1, stuck: since(place) ? 0.4 : 0.02 });
    expect(seeds(20).filter((seed) => detect(fleet(seed, changed + 160, both))).length).toBeGreaterThanOrEqual(19);
  });
});

describe('the end of a shift', () => {
  const slowPullFor = (count: number): Shape => {
    return (place) => ({ pull: since(place) && place < changed + count ? 2 : 1 });
  };
  it('comes soon after boots are as fast as before', () => {
    const boots = fleet(5, changed + 120 + 30, slowPullFor(120));
    expect(detect(boots.slice(0, changed + 120), { is_known: true })).toBeDefined();
    expect(detect(boots, { is_known: true })).toBeUndefined();
  });
  it('does not come by chance, because a known shift needs less to stay', () => {
    const ended = seeds(40).filter((seed) => {
      const boots = fleet(seed, changed + 160, slowPull);
      const first = firstDetection(boots, changed + 20, 5);
      if (!first) return false;
      for (let count = first.count; count <= boots.length; count += 17)
        if (!detect(boots.slice(0, count), { is_known: true })) return true;
      return false;
    });
    expect(ended.length).toBeLessThanOrEqual(1);
  });
  it('comes when the slower pace counts as normal; a further slowdown is reported again', () => {
    const slowedAgain = changed + boots_a_day * 8;
    const boots = fleet(2, slowedAgain + 80, (place) => ({
      pull: since(place) ? 2 : 1,
      setup: place >= slowedAgain ? 1.6 : 1,
    }));
    const firstEightDays = boots.slice(0, slowedAgain);
    expect(detect(firstEightDays), 'the slower pace counts as normal').toBeUndefined();
    const second = detect(boots);
    expect(second?.since.getTime()).toBeGreaterThan(firstEightDays.at(-10)?.started_at.getTime() ?? 0);
    expect(second?.former_seconds).toBeGreaterThan(500);
  });
});

it('gives the same result for the same boots', () => {
  const boots = fleet(9, 300, slowPull);
  expect(detect(boots)).toEqual(detect(boots));
});
