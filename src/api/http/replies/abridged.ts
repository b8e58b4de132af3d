/** As much of a value as it takes to say what is wrong with it: to name faults takes a validator many times as long as to find that there are some. */

/** So many of a list or of an object are enough to say what is wrong with nearly all. */
const mostShown = 200;

export function abridged(value: unknown, most = mostShown): unknown {
  if (value === null || typeof value !== 'object') return value;
  // Of what is in a list little is shown, so that the whole stays small.
  if (Array.isArray(value)) return value.slice(0, most).map((item) => abridged(item, Math.min(most, 20)));
  const shown = Object.entries(value).slice(0, most);
  return Object.fromEntries(shown.map(([key, item]) => [key, abridged(item, most)]));
}
