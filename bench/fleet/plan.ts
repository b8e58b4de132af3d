/**
 * What befalls the fleet, drawn before it begins: who dies and when, who restarts, who falters for almost as long as it may
 * without being missed, and who boots late and how long that takes.
 */
import { throwing } from '../../test/properties/support/dice.ts';
import type { FleetOptions } from './options.ts';

export interface Planned {
  atSeconds: number;
  act: 'dies' | 'restarts' | 'falters' | 'joins';
  /** Whose; of one that joins, its place among those. */
  agent: number;
}

/** The share of its stale time for which one falters: too long for comfort, too short for a verdict. */
export const falteringShare = 0.8;
const bootMedianSeconds = 8;
const bootSpread = 0.6;

/** As boots are: most take about as long as the median, a few much longer. */
export function bootSeconds(random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return bootMedianSeconds * Math.exp(bootSpread * normal);
}

/** `staleSeconds`: the longest that anybody may be silent. Whoever dies does so early enough to be missed while we look. */
export function drawPlan(options: FleetOptions, staleSeconds: number): Planned[] {
  const { nodes, deaths, restarts, faltering, joins } = options;
  const seconds = options.minutes * 60;
  const lastDeath = seconds - staleSeconds - settleSeconds;
  if (deaths > 0 && lastDeath < firstSeconds)
    throw new Error(`in ${seconds} s nobody who dies can be missed, for one may be silent for ${staleSeconds} s`);
  const { next: random } = throwing(options.seed);
  const taken = new Set<number>();
  const somebody = () => {
    for (;;) {
      const agent = Math.floor(random() * nodes);
      if (taken.has(agent)) continue;
      taken.add(agent);
      return agent;
    }
  };
  const between = (from: number, to: number) => from + random() * (to - from);
  const many = (count: number, act: Planned['act'], until: number, who: (place: number) => number): Planned[] =>
    Array.from({ length: count }, (_, place) => ({ atSeconds: between(firstSeconds, until), act, agent: who(place) }));
  return [
    ...many(deaths, 'dies', lastDeath, somebody),
    ...many(restarts, 'restarts', seconds - settleSeconds, somebody),
    ...many(faltering, 'falters', seconds - settleSeconds, somebody),
    ...many(joins, 'joins', seconds - settleSeconds, (place) => place),
  ].sort((a, b) => a.atSeconds - b.atSeconds);
}

const firstSeconds = 5;
/** After the last death's time is up, verdicts may come a little late, and the last to join still boot. */
const settleSeconds = 10;
