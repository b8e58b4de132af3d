/**
 * Reproducible random numbers: the same seed gives the same numbers, independent for each sequence.
 */

export interface Random {
  /** From 0 up to, but not including, 1. */
  next(): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** Mixes the parts of a seed, so that neighbouring sequences are independent. */
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
    pick: (list) => at(list, next()),
  };
}

/** The item that a draw selects. */
export function at<T>(list: readonly T[], draw: number): T {
  const item = list[Math.floor(draw * list.length)];
  if (item === undefined) throw new Error('there is nothing to choose from');
  return item;
}

/** The name that a draw selects, by weight. */
export function weighted<Name extends string>(weights: Partial<Record<Name, number>>, draw: number): Name {
  const entries = Object.entries(weights) as [Name, number][];
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
  let left = draw * total;
  for (const [name, weight] of entries) {
    left -= weight;
    if (left < 0) return name;
  }
  throw new Error('there is nothing to choose from');
}
