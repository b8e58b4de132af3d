/**
 * Whatever happens to an operation, its bar and its step never go backwards, it is whole only at its end, and no step's end is
 * reached before the step ends: tries and retries, restarts, clocks that are set back, samples that come meanwhile, cancels.
 *
 * SLIPWAY_PROPERTY_SEED repeats a run, and SLIPWAY_PROGRESS_HISTORIES says how many there are.
 */
import { randomInt } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { histories } from './support/progress/events.ts';
import { tellInMemory } from './support/progress/in-memory.ts';
import { openStoreHistories } from './support/progress/in-store.ts';

const { SLIPWAY_PROPERTY_SEED, SLIPWAY_PROGRESS_HISTORIES } = process.env;
const seed = SLIPWAY_PROPERTY_SEED === undefined ? randomInt(2 ** 31) : Number(SLIPWAY_PROPERTY_SEED);
const wanted = Number(SLIPWAY_PROGRESS_HISTORIES ?? 10_000);
/** Through the real store each costs as much as some hundred in memory. */
const throughStore = Math.max(20, Math.round(wanted / 250));

test(`percent and step never go backwards in ${wanted} random histories (seed ${seed})`, () => {
  fc.assert(fc.property(histories(1, 60), tellInMemory), { numRuns: wanted, seed });
});

test(`nor in ${throughStore} through the real store (seed ${seed})`, async () => {
  await using store = await openStoreHistories();
  await fc.assert(
    fc.asyncProperty(histories(15, 30), (history) => store.tell(history)),
    { numRuns: throughStore, seed, endOnFailure: true },
  );
  expect(store.told()).toBeGreaterThanOrEqual(throughStore);
});
