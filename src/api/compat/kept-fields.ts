/** Selects the fields of a foreign client that are stored, within a size limit. */

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '');
const maxNameLength = 64;
const maxListed = 20;

/**
 * Keeps whole fields that fit, shortest first, so that one long list does not push out everything
 * else. `left_out` lists up to 20 of the others, with their sizes.
 */
export function selectFields(fields: Record<string, unknown>, maxBytes: number): Record<string, unknown> {
  const keptEntries: [string, unknown][] = [];
  const left_out: string[] = [];
  let remainingBytes = maxBytes;
  const sized = Object.entries(fields).map(([name, value]) => ({ name, value, bytes: bytesOf(value) }));
  for (const { name, value, bytes } of sized.toSorted((a, b) => a.bytes - b.bytes)) {
    const cost = Buffer.byteLength(name) + bytes;
    if (cost <= remainingBytes && name.length <= maxNameLength) {
      keptEntries.push([name, value]);
      remainingBytes -= cost;
    } else left_out.push(`${name.slice(0, maxNameLength)} (${bytes} bytes)`);
  }
  return Object.fromEntries([
    ...keptEntries,
    ...(left_out.length > 0 ? [['left_out', left_out.slice(0, maxListed)]] : []),
  ]);
}

/** Returns the fields that are neither null nor in `known`. */
export const omitFields = (body: object, known: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== null && !known.includes(name)));
