/**
 * Random sequences, each the life of one machine or of one small pool, and the schedule of rounds
 * in which all of them take turns. A draw selects one of the commands allowed in the current
 * state, so most of them change something. Seed and index reproduce a sequence exactly.
 */

import { commonPools, ownPool } from './pools.ts';
import { type Random, seededRandom, weighted } from './random.ts';

/**
 * - expected: an operator created the node; the machine enrols by its token
 * - joined: the machine joins by itself
 * - agentless: supervised through the provider, without an agent
 * - launched: has its own pool, which launches machines for its allocations
 * - brought: has its own pool, which machines join; allocations take free ones
 */
export type Life = 'expected' | 'joined' | 'agentless' | 'launched' | 'brought';

export interface Draws {
  /** Selects one of the allowed commands. */
  command: number;
  /** Select the subject and the variant. */
  who: number;
  how: number;
}

export interface Sequence {
  index: number;
  life: Life;
  pool: string;
  flavour: number;
  /** A label that maintenance windows select. */
  digit: string;
  /** By round; null: no command. */
  turns: (Draws | null)[];
}

export interface Round {
  advance_seconds: number;
  /** Commands run at the same time as the sweeps of both replicas. */
  racing: boolean;
  /** The server was away: one replica is replaced, and there is an ingest gap. */
  away: boolean;
  /** One replica has not stored its heartbeats. */
  lagging: boolean;
  maintenance: { pool: string } | { zone: string } | { label: string } | null;
  endMaintenance: boolean;
  resumeBrake: boolean;
  turnMode: boolean;
}

const lives: Record<Life, number> = { expected: 50, joined: 5, agentless: 36, launched: 7, brought: 2 };
export const roundCount = 20;
const shortest = 6;
const longest = 20;

/**
 * Short sequences are cheap and find most. Long ones reach states such as a machine's second
 * tenant.
 */
const lengthOf = (random: Random, life: Life) =>
  shortest + Math.floor((longest - shortest + 1) * random.next() ** (life === 'brought' ? 0.3 : 10));

const hasOwnPool = (life: Life) => life === 'launched' || life === 'brought';

const placeOf = (life: Life, common: string, index: number): string => {
  if (life === 'agentless') return 'agentless';
  return hasOwnPool(life) ? ownPool(index) : common;
};

/** A copy under another index, so that several copies can run together. */
export const renumbered = (sequence: Sequence, index: number): Sequence => ({
  ...sequence,
  index,
  pool: placeOf(sequence.life, sequence.pool, index),
});

export function sequenceOf(seed: number, index: number): Sequence {
  const random = seededRandom(seed, index);
  const life = weighted(lives, random.next());
  const common = random.pick(commonPools);
  const length = lengthOf(random, life);
  const from = Math.floor(random.next() * (roundCount - length + 1));
  const flavour = random.next();
  const draw = Array.from({ length: roundCount }, (): Draws => {
    return { command: random.next(), who: random.next(), how: random.next() };
  });
  return {
    index,
    life,
    pool: placeOf(life, common, index),
    flavour,
    digit: String(index % 10),
    turns: draw.map((each, round) => (round >= from && round < from + length ? each : null)),
  };
}

const steps = [0.5, 1, 5, 10, 10, 20, 20, 30, 60];

/** How often the server is away; each time all open deadlines move. */
const timesAway = 2;

export function scheduleOf(seed: number, group: number): Round[] {
  const absences = seededRandom(seed, roundCount, 2, group);
  const away = new Set(Array.from({ length: timesAway }, () => 3 + Math.floor(absences.next() * (roundCount - 3))));
  return Array.from({ length: roundCount }, (_, number) => {
    const random = seededRandom(seed, number, 1, group);
    const work = random.next();
    return {
      advance_seconds: away.has(number) ? random.pick([5, 20, 60]) : random.pick(steps),
      racing: number % 2 === 1,
      away: away.has(number),
      lagging: !away.has(number) && random.chance(0.15),
      maintenance:
        work < 0.12
          ? { pool: random.pick(commonPools) }
          : work < 0.16
            ? { zone: 'north' }
            : work < 0.3
              ? { label: String(Math.floor(random.next() * 10)) }
              : null,
      endMaintenance: random.chance(0.15),
      resumeBrake: random.chance(0.2),
      turnMode: random.chance(0.25),
    };
  });
}
