/**
 * Learned budgets compared with fixed ones on simulated fleets: how many healthy boots each
 * destroys, and how long it takes to find stuck ones. Exits with 1 if a claim does not hold.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { systemClock } from '../../src/base/clock.ts';
import { learnBudget } from '../../src/lifecycle/boots/learned-budget.ts';
import type { TimedBoot } from '../../src/lifecycle/boots/survival.ts';
import { readOptions } from '../harness/options.ts';
import { claimsOf } from './compare.ts';
import { drawFigure } from './figure.ts';
import { drawBoots } from './fleet.ts';
import { withTables, writeTables } from './page.ts';
import { fleet, pools } from './parameters.ts';
import { measure } from './tally.ts';

const options = readOptions(import.meta.url, {
  takes: 'one to two minutes of one core',
  options: {
    seeds: { kind: 'count', otherwise: fleet.seeds, what: 'how many fleets; ten are a first look' },
    // The rule was chosen on the first two hundred seeds; others test it on unseen fleets.
    'first-seed': { kind: 'tally', otherwise: 0, what: 'where they begin' },
    'write-docs': { kind: 'flag', what: 'put tables and figure into docs/' },
    json: { kind: 'flag', what: 'print the result for programs' },
  },
});

const pagePath = new URL('../../docs/explanation/learned-budgets.md', import.meta.url);
const figurePath = new URL('../../docs/images/learned-budgets.svg', import.meta.url);

const monotonicSeconds = () => systemClock.monotonicMs() / 1000;

/** The time of one evaluation with this many boots; it runs whenever a boot ends. */
function secondsToLearn(count: number): number {
  const boots: TimedBoot[] = [];
  for (let seed = 0; boots.length < count; seed++)
    for (const pool of pools)
      for (const takes of drawBoots(pool, seed).takes)
        boots.push(
          Number.isFinite(takes) ? { seconds: takes, outcome: 'completed' } : { seconds: 720, outcome: 'timed_out' },
        );
  const question = {
    boots: { make: boots.slice(0, count) },
    fixed_seconds: 720,
    current_seconds: 720,
    recent_seconds: [],
  };
  const repeats = Math.ceil(50_000 / count);
  const from = monotonicSeconds();
  for (let repeat = 0; repeat < repeats; repeat++) learnBudget(question);
  return (monotonicSeconds() - from) / repeats;
}

function costLines(): string[] {
  secondsToLearn(500);
  return [500, 5_000, 50_000].map(
    (count) =>
      `  one question with ${String(count).padStart(6)} boots: ${(secondsToLearn(count) * 1000).toFixed(2)} ms`,
  );
}

const from = monotonicSeconds();
const saySeeds = (seed: number) => {
  if (seed % 20 === 19) process.stderr.write(`${seed + 1} seeds after ${(monotonicSeconds() - from).toFixed(0)} s\n`);
};
const result = measure(options.seeds, saySeeds, options['first-seed']);
const took = monotonicSeconds() - from;

if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`);
else {
  process.stdout.write(`${writeTables(result)}\n\nWhat learning costs:\n${costLines().join('\n')}\n`);
  process.stdout.write(`  the whole simulation: ${took.toFixed(0)} s\n`);
}
if (options['write-docs']) {
  await writeFile(pagePath, withTables(await readFile(pagePath, 'utf8'), writeTables(result)));
  await writeFile(figurePath, drawFigure(result));
}
process.exitCode = claimsOf(result).every(({ holds }) => holds) ? 0 : 1;
