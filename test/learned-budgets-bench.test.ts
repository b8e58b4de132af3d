/** Tests the benchmark of learned budgets: its simulated fleets, its policies and its page. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { claimsOf, relationOf } from '../bench/learned-budgets/compare.ts';
import { drawFigure } from '../bench/learned-budgets/figure.ts';
import { drawBoots, drawMedian, totalSeconds } from '../bench/learned-budgets/fleet.ts';
import { insertTables, writeTables } from '../bench/learned-budgets/page.ts';
import { evenWithin, fleet, pools } from '../bench/learned-budgets/parameters.ts';
import { policies, runPolicy, type Tally } from '../bench/learned-budgets/policies.ts';
import type { Result } from '../bench/learned-budgets/tally.ts';
import { seededRandom } from './properties/support/random.ts';

const [minMedian, maxMedian] = fleet.median_bounds;
const seeds = [0, 1, 2, 3];
const medianOf = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

describe('the simulated fleets', () => {
  test('have pools with median boots from 20 s to 900 s, 200 seeds and 2 % stuck boots', () => {
    const medians = pools.map(({ median_seconds }) => median_seconds);
    expect([Math.min(...medians), Math.max(...medians), fleet.seeds]).toEqual([20, 900, 200]);
    expect(fleet.stuck_share).toBe(0.02);
  });

  test.for(pools)('$name: the shares of the boot parts add up to 1, and the median stays within its bounds', (pool) => {
    expect(pool.parts.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1);
    for (const seed of seeds) {
      const at = drawMedian(pool, seededRandom(seed));
      for (let day = 0; day < totalSeconds / 86_400; day++) {
        expect(at(day * 86_400)).toBeGreaterThanOrEqual(minMedian);
        expect(at(day * 86_400)).toBeLessThanOrEqual(maxMedian);
      }
      expect(at(0)).toBeCloseTo(pool.median_seconds);
    }
  });

  test.for(pools)('$name: the median of the boots of the first five days matches the pool', (pool) => {
    const earlySeconds = seeds.flatMap((seed) => {
      const { starts, durations } = drawBoots(pool, seed);
      return [...durations].filter((seconds, boot) => Number.isFinite(seconds) && (starts[boot] ?? 0) < 5 * 86_400);
    });
    const ratio = medianOf(earlySeconds) / pool.median_seconds;
    expect(Math.abs(Math.log(ratio))).toBeLessThan((4 * pool.sigma) / Math.sqrt(earlySeconds.length) + 0.1);
  });

  test('draw about 2 % stuck boots, and progress reports in order before the end of their boot', () => {
    let [bootCount, stuckCount] = [0, 0];
    for (const pool of pools) {
      const { count, durations, reportTimes, reportCount } = drawBoots(pool, 7);
      for (let boot = 0; boot < count; boot++) {
        const reports = [...reportTimes.slice(boot * reportCount, (boot + 1) * reportCount)];
        expect(reports).toEqual(reports.toSorted((a, b) => a - b));
        if (Number.isFinite(durations[boot])) expect(reports.every((at) => at < (durations[boot] ?? 0))).toBe(true);
        else stuckCount++;
      }
      bootCount += count;
    }
    expect(stuckCount / bootCount).toBeGreaterThan(0.017);
    expect(stuckCount / bootCount).toBeLessThan(0.023);
  });

  test('are equal for equal seeds and different for different seeds', () => {
    const [pool] = pools;
    if (!pool) throw new Error('there is no pool');
    expect(drawBoots(pool, 3)).toEqual(drawBoots(pool, 3));
    expect(drawBoots(pool, 3).durations).not.toEqual(drawBoots(pool, 4).durations);
  });
});

describe('the policies', () => {
  const boots = (duration: number, ...reportTimes: number[]) => ({
    ...{ count: 1, starts: Float64Array.of(0), durations: Float64Array.of(duration), reportCount: reportTimes.length },
    ...{ reportTimes: Float64Array.from(reportTimes), new_image_at: Number.POSITIVE_INFINITY },
  });
  const [first] = policies;
  const fixedPolicy = { ...first, learns: false };
  const neverSeconds = Number.POSITIVE_INFINITY;

  test('count a boot within the rescue window as rescued, and a later one as a false kill', () => {
    const ignoresProgress = { ...fixedPolicy, progress_aware: false };
    expect(runPolicy(ignoresProgress, boots(1080))).toMatchObject({ rescued: 1, false_kills: 0, burnt_seconds: 0 });
    expect(runPolicy(ignoresProgress, boots(1081))).toMatchObject({ rescued: 0, false_kills: 1, burnt_seconds: 1080 });
    expect(runPolicy(fixedPolicy, boots(1440))).toMatchObject({ rescued: 1, false_kills: 0 });
    expect(runPolicy({ ...fixedPolicy, rescues: false }, boots(721))).toMatchObject({
      false_kills: 1,
      burnt_seconds: 720,
    });
  });

  test('find a stuck boot at the end of its budget, or earlier if its progress stops', () => {
    expect(runPolicy(fixedPolicy, boots(neverSeconds, neverSeconds)).found_seconds).toBe(720);
    expect(runPolicy(fixedPolicy, boots(neverSeconds, 100)).found_seconds).toBe(280);
    expect(runPolicy({ ...fixedPolicy, progress_aware: false }, boots(neverSeconds, 100)).found_seconds).toBe(720);
  });

  test('give a boot that reports progress up to twice its budget', () => {
    const reportTimes = [150, 300, 450, 600, 750, 900, 1050, 1200, 1350];
    expect(runPolicy(fixedPolicy, boots(1440, ...reportTimes))).toMatchObject({ rescued: 0, false_kills: 0 });
    expect(runPolicy({ ...fixedPolicy, rescues: false }, boots(1441, ...reportTimes, 1430))).toMatchObject({
      false_kills: 1,
    });
  });
});

describe('the comparison of two policies', () => {
  const measures = (false_kills: number, found: number) => ({ false_kills, found, rescued: 0, burnt: 0 });
  test.for([
    [measures(1, 100), measures(9, 600), 'dominates'],
    [measures(1, 100), measures(0.5, 600), 'dominates'],
    [measures(3, 100), measures(1, 600), 'trades'],
    [measures(1, 700), measures(9, 600), 'trades'],
    [measures(1, 700), measures(1, 600), 'loses'],
    [measures(9, 600), measures(1, 600), 'loses'],
    [measures(1, 605), measures(1, 600), 'even'],
  ] as const)('of %o with %o returns %s', ([one, other, relation]) => {
    expect(relationOf(one, other, evenWithin)).toBe(relation);
  });
});

describe('the page', () => {
  const tally = (false_kills: number, found: number): Tally => ({
    ...{ completing: 1000, stuck: 20, rescued: 2, burnt_seconds: 36_000 },
    ...{ false_kills, found_seconds: found * 20 },
  });
  const learnedTallies = Object.fromEntries(policies.map(({ name }) => [name, tally(1, 300)]));
  const fixedTallies = { 'fixed 600 s': tally(50, 600), 'fixed 720 s': tally(30, 720) };
  const tallies = { ...fixedTallies, 'fixed 900 s': tally(9, 900), 'fixed 1800 s': tally(0, 1800), ...learnedTallies };
  const grid = [600, 1800].map((seconds) => ({ seconds, tally: tally(seconds === 600 ? 50 : 0, seconds) }));
  const result: Result = {
    seeds: 1,
    pools: [{ pool: 'growing', tallies, grid, budgets: [720, 540] }],
    fleets: [tallies],
  };

  test('has a row with the comparison for each pool, and the result of each claim', () => {
    const tables = writeTables(result);
    expect(tables).toContain(
      '| growing |  180 s |        1.00 |       2.00 |       300 s | 50 **✓** | 30 **✓** | 9.00 **✓** | 0 **✓** |',
    );
    expect(tables).toContain(
      '- holds: over the whole fleet at least 10 times fewer false kills than fixed 600 s (50.0 times)',
    );
    expect(claimsOf(result).every(({ holds }) => holds)).toBe(true);
    const worseTallies = { ...tallies, [policies[0].name]: tally(6, 2000) };
    const worseResult = { ...result, pools: [{ pool: 'growing', tallies: worseTallies, grid, budgets: [] }] };
    expect(claimsOf(worseResult).map(({ holds }) => holds)).toEqual([false, false, false, false, false]);
    expect(writeTables(worseResult)).toContain('- **does not hold**: dominates fixed 600 s in most pools');
  });

  test('keeps its text when the tables are replaced', async () => {
    const page = await readFile(new URL('../docs/explanation/learned-budgets.md', import.meta.url), 'utf8');
    const updatedPage = insertTables(page, writeTables(result));
    expect(insertTables(updatedPage, 'nothing')).toBe(insertTables(page, 'nothing'));
    expect(updatedPage).toContain(writeTables(result));
    expect(() => insertTables('no marks', '')).toThrow('markers');
  });

  test('has a figure with a panel for each pool', () => {
    expect(drawFigure(result).match(/class="learned"/g)).toHaveLength(1 + result.pools.length);
  });
});
