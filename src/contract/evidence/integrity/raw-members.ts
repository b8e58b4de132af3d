/**
 * Reads the members of a JSON object with the exact text of each value, which parsing would lose.
 */

/** The end of the value that begins at `start`; the text must be valid JSON. */
function findValueEnd(text: string, start: number): number {
  let depth = 0;
  let inString = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === '\\') at++;
      else if (character === '"') inString = false;
      continue;
    }
    if (character === '"') inString = true;
    else if (character === '{' || character === '[') depth++;
    else if (character === '}' || character === ']') {
      if (depth === 0) return at;
      depth--;
    } else if (character === ',' && depth === 0) return at;
  }
  return text.length;
}

function findStringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

/**
 * Returns undefined if the text is not a one-line JSON object without white space between members,
 * or has duplicate members. Values may contain white space.
 */
export function readRawMembers(text: string): Map<string, string> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  } catch {
    return undefined;
  }
  const members = new Map<string, string>();
  let at = 1;
  while (at < text.length && text[at] === '"') {
    const nameEnd = findStringEnd(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    if (text[nameEnd] !== ':' || members.has(name)) return undefined;
    const end = findValueEnd(text, nameEnd + 1);
    members.set(name, text.slice(nameEnd + 1, end));
    at = end + 1;
  }
  // The loop stops early at text between members, such as white space.
  return at === text.length ? members : undefined;
}
