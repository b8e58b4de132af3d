/** The benchmark of learned budgets uses the documented fleets, and its page shows the results. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { claimsOf, relationOf } from '../bench/learned-budgets/compare.ts';
import { drawFigure } from '../bench/learned-budgets/figure.ts';
import { drawBoots, drawMedian, totalSeconds } from '../bench/learned-budgets/fleet.ts';
import { withTables, writeTables } from '../bench/learned-budgets/page.ts';
import { evenWithin, fleet, pools } from '../bench/learned-budgets/parameters.ts';
import { policies, runPolicy, type Tally } from '../bench/learned-budgets/policies.ts';
import type { Result } from '../bench/learned-budgets/tally.ts';
import { seededRandom } from './properties/support/random.ts';

const [minMedian, maxMedian] = fleet.median_bounds;
const seeds = [0, 1, 2, 3];
const medianOf = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

describe('the fleets', () => {
  test('have pools from 20 s to 900 s, and 200 seeds', () => {
    const medians = pools.map(({ median_seconds }) => median_seconds);
    expect([Math.min(...medians), Math.max(...medians), fleet.seeds]).toEqual([20, 900, 200]);
    expect(fleet.stuck_share).toBe(0.02);
  });

  test.for(pools)('$name: the parts add up to a boot, and the median drifts within its bounds', (pool) => {
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

  test.for(pools)('$name: the median of the first boots matches the pool', (pool) => {
    const early = seeds.flatMap((seed) => {
      const { begins, takes } = drawBoots(pool, seed);
      return [...takes].filter((seconds, boot) => Number.isFinite(seconds) && (begins[boot] ?? 0) < 5 * 86_400);
    });
    const ratio = medianOf(early) / pool.median_seconds;
    expect(Math.abs(Math.log(ratio))).toBeLessThan((4 * pool.sigma) / Math.sqrt(early.length) + 0.1);
  });

  test('have two percent stuck boots, and no report after the end of a boot', () => {
    let [all, stuck] = [0, 0];
    for (const pool of pools) {
      const { count, takes, says, words } = drawBoots(pool, 7);
      for (let boot = 0; boot < count; boot++) {
        const reports = [...says.slice(boot * words, (boot + 1) * words)];
        expect(reports).toEqual(reports.toSorted((a, b) => a - b));
        if (Number.isFinite(takes[boot])) expect(reports.every((at) => at < (takes[boot] ?? 0))).toBe(true);
        else stuck++;
      }
      all += count;
    }
    expect(stuck / all).toBeGreaterThan(0.017);
    expect(stuck / all).toBeLessThan(0.023);
  });

  test('are equal for equal seeds and different for others', () => {
    const [pool] = pools;
    if (!pool) throw new Error('there is no pool');
    expect(drawBoots(pool, 3)).toEqual(drawBoots(pool, 3));
    expect(drawBoots(pool, 3).takes).not.toEqual(drawBoots(pool, 4).takes);
  });
});

describe('the policies', () => {
  const boots = (takes: number, ...says: number[]) => ({
    ...{ count: 1, begins: Float64Array.of(0), takes: Float64Array.of(takes), words: says.length },
    ...{ says: Float64Array.from(says), new_image_at: Number.POSITIVE_INFINITY },
  });
  const [first] = policies;
  const fixed = { ...first, learns: false };
  const never = Number.POSITIVE_INFINITY;

  test('count a boot within the rescue window as rescued, and a later one as a false kill', () => {
    const ignoresProgress = { ...fixed, progress_aware: false };
    expect(runPolicy(ignoresProgress, boots(1080))).toMatchObject({ rescued: 1, false_kills: 0, burnt_seconds: 0 });
    expect(runPolicy(ignoresProgress, boots(1081))).toMatchObject({ rescued: 0, false_kills: 1, burnt_seconds: 1080 });
    expect(runPolicy(fixed, boots(1440))).toMatchObject({ rescued: 1, false_kills: 0 });
    expect(runPolicy({ ...fixed, rescues: false }, boots(721))).toMatchObject({ false_kills: 1, burnt_seconds: 720 });
  });

  test('find a stuck boot at the end of its budget, or earlier by its silence', () => {
    expect(runPolicy(fixed, boots(never, never)).found_seconds).toBe(720);
    expect(runPolicy(fixed, boots(never, 100)).found_seconds).toBe(280);
    expect(runPolicy({ ...fixed, progress_aware: false }, boots(never, 100)).found_seconds).toBe(720);
  });

  test('let a boot that advances take up to twice its budget', () => {
    const words = [150, 300, 450, 600, 750, 900, 1050, 1200, 1350];
    expect(runPolicy(fixed, boots(1440, ...words))).toMatchObject({ rescued: 0, false_kills: 0 });
    expect(runPolicy({ ...fixed, rescues: false }, boots(1441, ...words, 1430))).toMatchObject({ false_kills: 1 });
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
  ] as const)('%o compared with %o', ([one, other, relation]) => {
    expect(relationOf(one, other, evenWithin)).toBe(relation);
  });
});

describe('the page', () => {
  const tally = (false_kills: number, found: number): Tally => ({
    ...{ completing: 1000, stuck: 20, rescued: 2, burnt_seconds: 36_000 },
    ...{ false_kills, found_seconds: found * 20 },
  });
  const learned = Object.fromEntries(policies.map(({ name }) => [name, tally(1, 300)]));
  const fixed = { 'fixed 600 s': tally(50, 600), 'fixed 720 s': tally(30, 720) };
  const tallies = { ...fixed, 'fixed 900 s': tally(9, 900), 'fixed 1800 s': tally(0, 1800), ...learned };
  const grid = [600, 1800].map((seconds) => ({ seconds, tally: tally(seconds === 600 ? 50 : 0, seconds) }));
  const result: Result = {
    seeds: 1,
    pools: [{ pool: 'growing', tallies, grid, budgets: [720, 540] }],
    fleets: [tallies],
  };

  test('has a row for each pool with the comparison, and the result of each claim', () => {
    const tables = writeTables(result);
    expect(tables).toContain(
      '| growing |  180 s |        1.00 |       2.00 |       300 s | 50 **✓** | 30 **✓** | 9.00 **✓** | 0 **✓** |',
    );
    expect(tables).toContain(
      '- holds: over the whole fleet at least 10 times fewer false kills than fixed 600 s (50.0 times)',
    );
    expect(claimsOf(result).every(({ holds }) => holds)).toBe(true);
    const worse = { ...tallies, [policies[0].name]: tally(6, 2000) };
    const failed = { ...result, pools: [{ pool: 'growing', tallies: worse, grid, budgets: [] }] };
    expect(claimsOf(failed).map(({ holds }) => holds)).toEqual([false, false, false, false, false]);
    expect(writeTables(failed)).toContain('- **does not hold**: dominates fixed 600 s in most pools');
  });

  test('replaces only the tables of the page', async () => {
    const page = await readFile(new URL('../docs/explanation/learned-budgets.md', import.meta.url), 'utf8');
    const updated = withTables(page, writeTables(result));
    expect(withTables(updated, 'nothing')).toBe(withTables(page, 'nothing'));
    expect(updated).toContain(writeTables(result));
    expect(() => withTables('no marks', '')).toThrow('markers');
  });

  test('has a figure with a panel for each pool', () => {
    expect(drawFigure(result).match(/class="learned"/g)).toHaveLength(1 + result.pools.length);
  });
});
