/** Rejects guessable tokens that a person chose. Generated tokens have 256 random bits. */
const minLength = 24;
const minDistinct = 8;
/** Characters that are valid in a bearer header. */
const visibleCharacters = /^[!-~]+$/;

/** The length of the shortest pattern that the text repeats; the last repetition may be partial. */
function periodOf(text: string): number {
  for (let period = 1; period < text.length; period++) if (text.startsWith(text.slice(period))) return period;
  return text.length;
}

/** Returns what is wrong, to print after the token's name; undefined for a strong token. */
export function tokenWeakness(token: string): string | undefined {
  if (token.length < minLength) return `must have at least ${minLength} characters, not ${token.length}`;
  if (!visibleCharacters.test(token)) return 'must consist of visible ASCII characters, without blanks';
  if (new Set(token).size < minDistinct) return `must have at least ${minDistinct} different characters`;
  if (periodOf(token) <= token.length / 2) return 'must not repeat one pattern';
  return undefined;
}
