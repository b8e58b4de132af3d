/** Chance that can be repeated: the same seed throws the same dice, and every sequence has dice of its own. */

export interface Dice {
  /** From 0 up to, but not including, 1. */
  next(): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** Mixes the parts of a seed, so that neighbouring sequences share nothing. */
function mixed(parts: readonly number[]): number {
  let state = 0x9e3779b9;
  for (const part of parts) {
    state = Math.imul(state ^ part, 0x85ebca6b);
    state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
    state ^= state >>> 16;
  }
  return state >>> 0;
}

export function throwing(...seed: number[]): Dice {
  let state = mixed(seed);
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

/** The item that a throw falls on. */
export function at<T>(list: readonly T[], thrown: number): T {
  const item = list[Math.floor(thrown * list.length)];
  if (item === undefined) throw new Error('there is nothing to choose from');
  return item;
}

/** The name that a throw falls on, where each has as many chances as its weight says. */
export function weighted<Name extends string>(weights: Partial<Record<Name, number>>, thrown: number): Name {
  const entries = Object.entries(weights) as [Name, number][];
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
  let left = thrown * total;
  for (const [name, weight] of entries) {
    left -= weight;
    if (left < 0) return name;
  }
  throw new Error('there is nothing to choose from');
}
