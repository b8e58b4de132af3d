/**
 * The progress and the step of an operation never go backwards. The progress reaches 100 percent
 * only when the operation succeeds, and never passes the end of a running step. The histories
 * contain retries, restarts, clocks that are set back, new samples and cancellations.
 *
 * SLIPWAY_PROPERTY_SEED repeats a run, and SLIPWAY_PROGRESS_HISTORIES sets the number of histories.
 */
import { randomInt } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { histories } from './support/progress/events.ts';
import { runInMemory } from './support/progress/in-memory.ts';
import { openStoreHistories } from './support/progress/in-store.ts';

const { SLIPWAY_PROPERTY_SEED, SLIPWAY_PROGRESS_HISTORIES } = process.env;
const seed = SLIPWAY_PROPERTY_SEED === undefined ? randomInt(2 ** 31) : Number(SLIPWAY_PROPERTY_SEED);
const memoryRuns = Number(SLIPWAY_PROGRESS_HISTORIES ?? 10_000);
/** One history on the real store takes as long as a few hundred in memory. */
const storeRuns = Math.max(20, Math.round(memoryRuns / 250));

test(`percent and step never go backwards in ${memoryRuns} random histories (seed ${seed})`, () => {
  fc.assert(fc.property(histories(1, 60), runInMemory), { numRuns: memoryRuns, seed });
});

test(`percent and step never go backwards in ${storeRuns} histories on the real store (seed ${seed})`, async () => {
  await using store = await openStoreHistories();
  await fc.assert(
    fc.asyncProperty(histories(15, 30), (history) => store.run(history)),
    { numRuns: storeRuns, seed, endOnFailure: true },
  );
  expect(store.runCount()).toBeGreaterThanOrEqual(storeRuns);
});
