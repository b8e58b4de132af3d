/**
 * Checks that a secret can be redacted by exact match without damaging other text or helping
 * someone guess it.
 */

import { origins } from '../../lifecycle/explain/evidence-origins.ts';
import { causes } from '../../lifecycle/model/transitions.ts';
import { errorCatalogue } from '../errors/errors.ts';
import { evidenceKinds } from '../evidence/evidence-kinds.ts';
import { evidenceLayers } from '../evidence/evidence-layers.ts';
import { maskedValue } from '../pool-fields/masked.ts';

/** Shorter values can be guessed: a reader of stored text sees which guesses were redacted. */
export const minSecretLength = 16;

/**
 * A value needs this many distinct characters: a line of dashes, for example, is common in logs.
 */
const minDistinctCharacters = 6;

/** Words that programs read. Statuses need no entry: the kinds of evidence contain them. */
const reservedWords: readonly string[] = [
  ...evidenceKinds,
  ...evidenceLayers,
  ...origins,
  ...Object.keys(causes),
  ...Object.keys(errorCatalogue),
  maskedValue,
].map((word) => word.toLowerCase());

export type SecretValueProblem = 'reserved_word' | 'too_short' | 'too_uniform';

/** Returns why the text is unsuitable, or undefined. Checks the whole text, not its lines. */
export function secretValueProblem(value: string): SecretValueProblem | undefined {
  const lower = value.toLowerCase();
  if (reservedWords.some((word) => word.includes(lower))) return 'reserved_word';
  if (value.length < minSecretLength) return 'too_short';
  return new Set(value).size < minDistinctCharacters ? 'too_uniform' : undefined;
}
