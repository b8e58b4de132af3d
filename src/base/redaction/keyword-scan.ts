/**
 * Finds which of many keywords occur in a text, in one pass (Aho–Corasick). The time does not
 * depend on the number of keywords. Each pattern can therefore have its own keywords, and only
 * patterns whose keyword occurs are run.
 */

/**
 * Returns the owners of the keywords that occur, each once and in order, or undefined if none
 * occurs.
 */
export type KeywordScan = (text: string) => number[] | undefined;

const asciiLetters = 128;

const lowerAscii = (code: number): number => (code >= 65 && code <= 90 ? code + 32 : code);

/** Characters that occur in no keyword share one class, which keeps the table small. */
function classesOf(keywords: readonly string[]): { classOf: Uint8Array; classes: number } {
  const classOf = new Uint8Array(asciiLetters);
  let classes = 1;
  for (const keyword of keywords)
    for (let at = 0; at < keyword.length; at++) {
      const code = lowerAscii(keyword.charCodeAt(at));
      if (classOf[code] === 0) classOf[code] = classes++;
    }
  for (let code = 65; code <= 90; code++) classOf[code] = classOf[lowerAscii(code)] as number;
  return { classOf, classes };
}

/** `keywordsOf[owner]` are the owner's keywords; case is ignored. */
export function createKeywordScan(keywordsOf: readonly (readonly string[])[]): KeywordScan {
  const all = keywordsOf.flat();
  for (const keyword of all)
    if (!/^[\t -~]+$/.test(keyword)) throw new TypeError(`not a keyword: ${JSON.stringify(keyword)}`);
  const { classOf, classes } = classesOf(all);
  const states = 1 + all.reduce((sum, keyword) => sum + keyword.length, 0);
  const next = new Int32Array(states * classes);
  // Most entries are undefined, since only a few states end a keyword.
  const owners: (number[] | undefined)[] = [undefined];

  for (const [owner, keywords] of keywordsOf.entries())
    for (const keyword of keywords) {
      let state = 0;
      for (let at = 0; at < keyword.length; at++) {
        const edge = state * classes + (classOf[lowerAscii(keyword.charCodeAt(at))] as number);
        if (next[edge] === 0) {
          next[edge] = owners.length;
          owners.push(undefined);
        }
        state = next[edge] as number;
      }
      owners[state] = [...(owners[state] ?? []), owner];
    }

  // Go breadth first: a failure state is shorter than its state, so its row is already complete.
  const failure = new Int32Array(owners.length);
  const queue: number[] = [];
  for (let letter = 0; letter < classes; letter++) if (next[letter] !== 0) queue.push(next[letter] as number);
  for (const state of queue) {
    const fallback = failure[state] as number;
    const shorter = owners[fallback];
    if (shorter) owners[state] = [...(owners[state] ?? []), ...shorter];
    for (let letter = 0; letter < classes; letter++) {
      const edge = state * classes + letter;
      const after = next[fallback * classes + letter] as number;
      if (next[edge] === 0) next[edge] = after;
      else {
        failure[next[edge] as number] = after;
        queue.push(next[edge] as number);
      }
    }
  }

  // States that end a keyword are numbered last, so one comparison detects them. A state is stored
  // as the start of its row.
  const inOrder = [
    ...owners.flatMap((set, state) => (set ? [] : [state])),
    ...owners.flatMap((set, state) => (set ? [state] : [])),
  ];
  const rowOf = new Int32Array(inOrder.length);
  for (const [place, state] of inOrder.entries()) rowOf[state] = place * classes;
  const table = new Int32Array(inOrder.length * classes);
  for (const [place, state] of inOrder.entries())
    for (let letter = 0; letter < classes; letter++)
      table[place * classes + letter] = rowOf[next[state * classes + letter] as number] as number;
  const foundAt = owners.flatMap((set) => (set ? [[...new Set(set)]] : []));
  if (foundAt.length === 0) return () => undefined;
  const firstEnd = (inOrder.length - foundAt.length) * classes;

  return (text) => {
    let row = 0;
    let hits: number[] | undefined;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      row = code < asciiLetters ? (table[row + (classOf[code] as number)] as number) : 0;
      if (row >= firstEnd) {
        hits ??= [];
        for (const owner of foundAt[(row - firstEnd) / classes] as number[])
          if (!hits.includes(owner)) hits.push(owner);
      }
    }
    return hits?.sort((a, b) => a - b);
  };
}
