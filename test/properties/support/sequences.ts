/**
 * Generates random sequences and the schedule of their rounds. A sequence is the life of one
 * machine or of one small pool; in each round every sequence may run one command. A draw selects
 * one of the commands allowed in the current state, so most commands change something. The seed and
 * the index reproduce a sequence exactly.
 */
import { commonPools, privatePoolName } from './pools.ts';
import { pickWeighted, type Random, seededRandom } from './random.ts';

/**
 * - expected: an operator creates the node, and its machine enrols with the node's token
 * - joined: the machine joins with a join token
 * - agentless: the provider supervises the machine, which has no agent
 * - launch-pool: the sequence has its own pool, which launches machines for its allocations
 * - join-pool: the sequence has its own pool, which machines join; allocations take free machines
 */
export type Life = 'expected' | 'joined' | 'agentless' | 'launch-pool' | 'join-pool';

export interface Draws {
  /** Selects one of the allowed commands. */
  command: number;
  /** Selects the machine or allocation on which the command acts. */
  subject: number;
  /** Selects the variant of the command, for example the content of a report. */
  variant: number;
}

export interface Sequence {
  index: number;
  life: Life;
  pool: string;
  /** Selects the budgets of the sequence's own pool, and whether it reuses machines. */
  variant: number;
  /** A label that maintenance windows select. */
  digit: string;
  /** The draws of each round; null for a round without a command. */
  turns: (Draws | null)[];
}

export interface Round {
  advance_seconds: number;
  /** Whether commands run at the same time as the sweeps of both replicas. */
  racesSweeps: boolean;
  /**
   * Whether no server ran before the round. One replica is then replaced, and an ingest gap is
   * recorded.
   */
  isServerAway: boolean;
  /** Whether the first replica does not report that it has stored its heartbeats. */
  isLagging: boolean;
  maintenance: { pool: string } | { zone: string } | { label: string } | null;
  endsMaintenance: boolean;
  resumesBrake: boolean;
  togglesMode: boolean;
}

const lives: Record<Life, number> = { expected: 50, joined: 5, agentless: 36, 'launch-pool': 7, 'join-pool': 2 };
export const roundCount = 20;
const minLength = 6;
const maxLength = 20;

/**
 * Short sequences are cheap and find most violations. Long ones reach rare states, such as the
 * second tenant of a machine.
 */
const drawLength = (random: Random, life: Life) =>
  minLength + Math.floor((maxLength - minLength + 1) * random.next() ** (life === 'join-pool' ? 0.3 : 10));

const hasPrivatePool = (life: Life) => life === 'launch-pool' || life === 'join-pool';

const poolOf = (life: Life, commonPool: string, index: number): string => {
  if (life === 'agentless') return 'agentless';
  return hasPrivatePool(life) ? privatePoolName(index) : commonPool;
};

/** Copies a sequence under another index, so that several copies can run together. */
export const copyWithIndex = (sequence: Sequence, index: number): Sequence => ({
  ...sequence,
  index,
  pool: poolOf(sequence.life, sequence.pool, index),
});

export function generateSequence(seed: number, index: number): Sequence {
  const random = seededRandom(seed, index);
  const life = pickWeighted(lives, random.next());
  const commonPool = random.pick(commonPools);
  const length = drawLength(random, life);
  const firstRound = Math.floor(random.next() * (roundCount - length + 1));
  const variant = random.next();
  const drawsByRound = Array.from({ length: roundCount }, (): Draws => {
    return { command: random.next(), subject: random.next(), variant: random.next() };
  });
  return {
    index,
    life,
    pool: poolOf(life, commonPool, index),
    variant,
    digit: String(index % 10),
    turns: drawsByRound.map((draws, round) => (round >= firstRound && round < firstRound + length ? draws : null)),
  };
}

const advanceSeconds = [0.5, 1, 5, 10, 10, 20, 20, 30, 60];

/** Few, because each absence of the server moves all open deadlines. */
const absenceCount = 2;

export function generateSchedule(seed: number, group: number): Round[] {
  const absenceRandom = seededRandom(seed, roundCount, 2, group);
  const absences = new Set(
    Array.from({ length: absenceCount }, () => 3 + Math.floor(absenceRandom.next() * (roundCount - 3))),
  );
  return Array.from({ length: roundCount }, (_, number) => {
    const random = seededRandom(seed, number, 1, group);
    const maintenanceDraw = random.next();
    return {
      advance_seconds: absences.has(number) ? random.pick([5, 20, 60]) : random.pick(advanceSeconds),
      racesSweeps: number % 2 === 1,
      isServerAway: absences.has(number),
      isLagging: !absences.has(number) && random.chance(0.15),
      maintenance:
        maintenanceDraw < 0.12
          ? { pool: random.pick(commonPools) }
          : maintenanceDraw < 0.16
            ? { zone: 'north' }
            : maintenanceDraw < 0.3
              ? { label: String(Math.floor(random.next() * 10)) }
              : null,
      endsMaintenance: random.chance(0.15),
      resumesBrake: random.chance(0.2),
      togglesMode: random.chance(0.25),
    };
  });
}
