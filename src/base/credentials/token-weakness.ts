/** Refuses tokens that a person made up and somebody could guess. Tokens that we make have 256 random bits. */
const minLength = 24;
const minDistinct = 8;
/** What a bearer header can carry; a token with anything else could never be used. */
const visible = /^[!-~]+$/;

/** The length of the shortest pattern that the text repeats, if only in part at its end. */
function periodOf(text: string): number {
  for (let period = 1; period < text.length; period++) if (text.startsWith(text.slice(period))) return period;
  return text.length;
}

/** What is wrong with it, to be read after its name; undefined where nothing is. */
export function tokenWeakness(token: string): string | undefined {
  if (token.length < minLength) return `must have at least ${minLength} characters, not ${token.length}`;
  if (!visible.test(token)) return 'must consist of visible ASCII characters, without blanks';
  if (new Set(token).size < minDistinct) return `must have at least ${minDistinct} different characters`;
  if (periodOf(token) <= token.length / 2) return 'must not repeat one pattern';
  return undefined;
}
