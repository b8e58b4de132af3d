/** Renders verdicts that did not take effect: held back, or recorded by an observe-only pool. */
import type { Held, WouldHave } from '../../../contract/node.ts';
import { formatAgeSince, formatMoment, formatRelative, momentInFull } from '../text/duration.ts';
import { printable } from '../text/text.ts';

const causes: Record<Held['kind'], string> = {
  'mass-failure': 'too many machines failed at once',
  'self-fault': 'the control plane may have missed heartbeats',
  maintenance: 'a maintenance window is open',
  'provider-away': 'its provider does not answer',
};

const causeText = (held: Held) => `${causes[held.kind]}: ${printable(held.reason)}`;

/** For a table. */
export const heldConcern = (held: Held): string => `held, would be ${held.to}: ${printable(held.reason)}`;

export const wouldHaveConcern = (verdict: WouldHave): string =>
  `observed only, would be ${verdict.to}: ${printable(verdict.reason)}`;

/** For the facts of one node. */
export const heldFact = (held: Held, nowMs: number): string =>
  `would be ${held.to}, but ${causeText(held)}; held until ${formatMoment(held.held_until, nowMs)}  [${held.rule}]`;

export const wouldHaveFact = (verdict: WouldHave, nowMs: number): string =>
  `been ${verdict.to}, but its pool is observe-only: ${printable(verdict.reason)}  [${verdict.rule}, ${formatRelative(verdict.at, nowMs)}]`;

export const heldSentences = (held: Held, status: string, nowMs: number): string[] => [
  `It is still ${status} only because a verdict is held back: ${held.rule} would make it ${held.to}.`,
  `Held for ${formatAgeSince(held.since, nowMs)}, because ${causeText(held)}.`,
  `Nothing happens until ${momentInFull(held.held_until)} (${formatRelative(held.held_until, nowMs)}); then ${held.rule} decides again.`,
];

export const wouldHaveSentence = (verdict: WouldHave, nowMs: number): string =>
  `Its pool is observe-only, so nothing was changed: ${formatRelative(verdict.at, nowMs)} ${verdict.rule} would have made it ` +
  `${verdict.to}, because ${printable(verdict.reason)}.`;
