/**
 * What is tried: sequences of throws, each the life of one machine or of one small pool, and the schedule of rounds in which
 * all of them take their turns. A throw falls on one of the commands that are open where the sequence then stands, so most of
 * them change something; a sequence is told again exactly by its seed and its number.
 */

import { commonPools, ownPool } from './pools.ts';
import { type Dice, throwing, weighted } from './random.ts';

/**
 * - expected: an operator expects the machine, which enrols by its token
 * - joined: the machine joins by itself
 * - agentless: the provider is asked, no agent speaks
 * - launched: a pool of its own, machines are made for its allocations
 * - brought: a pool of its own, machines join and its allocations take the free ones
 */
export type Life = 'expected' | 'joined' | 'agentless' | 'launched' | 'brought';

export interface Throws {
  /** Which command, of those that are open. */
  command: number;
  /** On what, and how. */
  who: number;
  how: number;
}

export interface Sequence {
  index: number;
  life: Life;
  pool: string;
  flavour: number;
  /** A label by which maintenance windows find some of them. */
  digit: string;
  /** By round; null where it does nothing. */
  turns: (Throws | null)[];
}

export interface Round {
  advance_seconds: number;
  /** Commands run at the same time as the sweeps of both replicas. */
  racing: boolean;
  /** Nobody listened while the time passed: one replica is replaced, and there is a gap. */
  away: boolean;
  /** One replica has not stored what it heard. */
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

/** Short ones are cheaper and find most. Long ones reach what only long lives reach, such as a machine's second tenant. */
const lengthOf = (dice: Dice, life: Life) =>
  shortest + Math.floor((longest - shortest + 1) * dice.next() ** (life === 'brought' ? 0.3 : 10));

const hasOwnPool = (life: Life) => life === 'launched' || life === 'brought';

const placeOf = (life: Life, common: string, index: number): string => {
  if (life === 'agentless') return 'agentless';
  return hasOwnPool(life) ? ownPool(index) : common;
};

/** The same under another number, so that several of a kind can run side by side. */
export const renumbered = (sequence: Sequence, index: number): Sequence => ({
  ...sequence,
  index,
  pool: placeOf(sequence.life, sequence.pool, index),
});

export function sequenceOf(seed: number, index: number): Sequence {
  const dice = throwing(seed, index);
  const life = weighted(lives, dice.next());
  const common = dice.pick(commonPools);
  const length = lengthOf(dice, life);
  const from = Math.floor(dice.next() * (roundCount - length + 1));
  const flavour = dice.next();
  const thrown = Array.from({ length: roundCount }, (): Throws => {
    return { command: dice.next(), who: dice.next(), how: dice.next() };
  });
  return {
    index,
    life,
    pool: placeOf(life, common, index),
    flavour,
    digit: String(index % 10),
    turns: thrown.map((each, round) => (round >= from && round < from + length ? each : null)),
  };
}

const steps = [0.5, 1, 5, 10, 10, 20, 20, 30, 60];

/** How often nobody listens: every time, all open deadlines move. */
const timesAway = 2;

export function scheduleOf(seed: number, company: number): Round[] {
  const absences = throwing(seed, roundCount, 2, company);
  const away = new Set(Array.from({ length: timesAway }, () => 3 + Math.floor(absences.next() * (roundCount - 3))));
  return Array.from({ length: roundCount }, (_, number) => {
    const dice = throwing(seed, number, 1, company);
    const work = dice.next();
    return {
      advance_seconds: away.has(number) ? dice.pick([5, 20, 60]) : dice.pick(steps),
      racing: number % 2 === 1,
      away: away.has(number),
      lagging: !away.has(number) && dice.chance(0.15),
      maintenance:
        work < 0.12
          ? { pool: dice.pick(commonPools) }
          : work < 0.16
            ? { zone: 'north' }
            : work < 0.3
              ? { label: String(Math.floor(dice.next() * 10)) }
              : null,
      endMaintenance: dice.chance(0.15),
      resumeBrake: dice.chance(0.2),
      turnMode: dice.chance(0.25),
    };
  });
}
