/** What a client of another kind said, cut to a size that may be kept. */

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '');
const longestName = 64;
const mostNamed = 20;

/** The fields that fit, short ones first, so that one long list does not push out everything else; the others are named. */
export function keptFields(said: Record<string, unknown>, mostBytes: number): Record<string, unknown> {
  const kept: [string, unknown][] = [];
  const left_out: string[] = [];
  let left = mostBytes;
  const sized = Object.entries(said).map(([name, value]) => ({ name, value, bytes: bytesOf(value) }));
  for (const { name, value, bytes } of sized.toSorted((a, b) => a.bytes - b.bytes)) {
    const cost = Buffer.byteLength(name) + bytes;
    if (cost <= left && name.length <= longestName) {
      kept.push([name, value]);
      left -= cost;
    } else left_out.push(`${name.slice(0, longestName)} (${bytes} bytes)`);
  }
  return Object.fromEntries([...kept, ...(left_out.length > 0 ? [['left_out', left_out.slice(0, mostNamed)]] : [])]);
}

/** The fields that are not among those. */
export const fieldsBeside = (body: object, known: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== null && !known.includes(name)));
