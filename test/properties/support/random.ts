/**
 * Generates reproducible random numbers: the same seed gives the same numbers, and different seeds
 * give independent ones.
 */

export interface Random {
  /** Returns a number of at least 0 and less than 1. */
  next(): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** Mixes the parts of a seed, so that even adjacent seeds give independent numbers. */
function mix(parts: readonly number[]): number {
  let state = 0x9e3779b9;
  for (const part of parts) {
    state = Math.imul(state ^ part, 0x85ebca6b);
    state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
    state ^= state >>> 16;
  }
  return state >>> 0;
}

export function seededRandom(...seed: number[]): Random {
  let state = mix(seed);
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    chance: (probability) => next() < probability,
    pick: (list) => pickAt(list, next()),
  };
}

/** Returns the item that a draw from 0 to 1 selects. */
export function pickAt<T>(list: readonly T[], draw: number): T {
  const item = list[Math.floor(draw * list.length)];
  if (item === undefined) throw new Error('no item to pick from');
  return item;
}

/** Returns the name that a draw from 0 to 1 selects, in proportion to the weights. */
export function pickWeighted<Name extends string>(weights: Partial<Record<Name, number>>, draw: number): Name {
  const entries = Object.entries(weights) as [Name, number][];
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
  let remaining = draw * total;
  for (const [name, weight] of entries) {
    remaining -= weight;
    if (remaining < 0) return name;
  }
  throw new Error('no item to pick from');
}
