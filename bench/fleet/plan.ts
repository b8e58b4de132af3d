/**
 * Draws the events of a run in advance: deaths, restarts, joins, and agents that falter, that is,
 * fall silent for most of their stale time. Also draws the durations of boots.
 */
import { seededRandom } from '../../test/properties/support/random.ts';
import type { FleetOptions } from './options.ts';

export interface PlannedEvent {
  atSeconds: number;
  act: 'dies' | 'restarts' | 'falters' | 'joins';
  /** The number of the agent. For a join, its position among the joins. */
  agent: number;
}

/** The share of its stale time for which an agent falters: long, but too short for a verdict. */
export const falteringShare = 0.8;
const bootMedianSeconds = 8;
const bootSpread = 0.6;

/** Log-normal: most boots are close to the median, a few take much longer. */
export function bootSeconds(random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return bootMedianSeconds * Math.exp(bootSpread * normal);
}

/**
 * `staleSeconds` is the longest stale time. Deaths come early enough to be detected during the run.
 */
export function drawPlan(options: FleetOptions, staleSeconds: number): PlannedEvent[] {
  const { nodes, deaths, restarts, faltering, joins } = options;
  const seconds = options.minutes * 60;
  const lastDeath = seconds - staleSeconds - settleSeconds;
  if (deaths > 0 && lastDeath < firstSeconds)
    throw new Error(`${seconds} s is too short to detect a death: an agent may be silent for ${staleSeconds} s`);
  const { next: random } = seededRandom(options.seed);
  const chosenAgents = new Set<number>();
  const chooseAgent = () => {
    for (;;) {
      const agent = Math.floor(random() * nodes);
      if (chosenAgents.has(agent)) continue;
      chosenAgents.add(agent);
      return agent;
    }
  };
  const randomBetween = (from: number, to: number) => from + random() * (to - from);
  const events = (
    count: number,
    act: PlannedEvent['act'],
    until: number,
    agentOf: (place: number) => number,
  ): PlannedEvent[] =>
    Array.from({ length: count }, (_, place) => ({
      atSeconds: randomBetween(firstSeconds, until),
      act,
      agent: agentOf(place),
    }));
  return [
    ...events(deaths, 'dies', lastDeath, chooseAgent),
    ...events(restarts, 'restarts', seconds - settleSeconds, chooseAgent),
    ...events(faltering, 'falters', seconds - settleSeconds, chooseAgent),
    ...events(joins, 'joins', seconds - settleSeconds, (place) => place),
  ].sort((a, b) => a.atSeconds - b.atSeconds);
}

const firstSeconds = 5;
/**
 * Time at the end of the run for late verdicts, and for the boots of the last machines that joined.
 */
const settleSeconds = 10;
