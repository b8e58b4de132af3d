/** Verdicts that did not take effect, in words: held back by the brake or by maintenance, or only observed. */
import type { Held, WouldHave } from '../../../contract/node.ts';
import { ageSince, momentAndDistance, momentInFull, relative } from '../text/duration.ts';
import { printable } from '../text/text.ts';

const keptBy: Record<Held['kind'], string> = {
  'mass-failure': 'too many machines turned bad at once',
  'self-fault': 'the control plane is not sure of its own hearing',
  maintenance: 'somebody works there',
  'provider-away': 'nobody can look at it',
};

const why = (held: Held) => `${keptBy[held.kind]}: ${printable(held.reason)}`;

/** In a line of a table. */
export const heldConcern = (held: Held): string => `held, would be ${held.to}: ${printable(held.reason)}`;

export const wouldHaveConcern = (verdict: WouldHave): string =>
  `only observed, would be ${verdict.to}: ${printable(verdict.reason)}`;

/** In one line of all about a machine. */
export const heldFact = (held: Held, nowMs: number): string =>
  `would be ${held.to}, but ${why(held)}; held until ${momentAndDistance(held.held_until, nowMs)}  [${held.rule}]`;

export const wouldHaveFact = (verdict: WouldHave, nowMs: number): string =>
  `been ${verdict.to}, but its pool is only observed: ${printable(verdict.reason)}  [${verdict.rule}, ${relative(verdict.at, nowMs)}]`;

export const heldSentences = (held: Held, status: string, nowMs: number): string[] => [
  `It is still ${status} only because a verdict is held back: ${held.rule} would make it ${held.to}.`,
  `Held for ${ageSince(held.since, nowMs)}, because ${why(held)}.`,
  `Nothing happens until ${momentInFull(held.held_until)} (${relative(held.held_until, nowMs)}); then ${held.rule} decides again.`,
];

export const wouldHaveSentence = (verdict: WouldHave, nowMs: number): string =>
  `Its pool is only observed, so nothing was changed: ${relative(verdict.at, nowMs)} ${verdict.rule} would have made it ` +
  `${verdict.to}, because ${printable(verdict.reason)}.`;
