/**
 * What no schema needs to say for itself: that input is plain data which PostgreSQL can hold. NUL and half of a surrogate
 * pair fit neither text nor jsonb; deep nesting and foreign prototypes are never meant well.
 */
const mostDepth = 32;
/** Five times what the fullest batch holds. What is looked at is looked at by the one thread that serves everybody. */
const mostValues = 50_000;

export interface Fault {
  path: string;
  message: string;
}

const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0');

const pointer = (key: string) =>
  `/${key.toWellFormed().replaceAll('\0', '␀').replaceAll('~', '~0').replaceAll('/', '~1')}`;

function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The first thing in `value` that is not plain data, or nothing. */
export const faultIn = (value: unknown): Fault | undefined => faultBelow(value, 0, { values: 0 });

function faultBelow(value: unknown, depth: number, seen: { values: number }): Fault | undefined {
  if (++seen.values > mostValues)
    return { path: '', message: `is one value too many: there must not be more than ${mostValues}` };
  if (typeof value === 'string')
    return isStorable(value)
      ? undefined
      : { path: '', message: 'must be text without NUL and without half characters' };
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : { path: '', message: 'must be a finite number' };
  if (value === null || typeof value !== 'object') return undefined;
  if (depth >= mostDepth) return { path: '', message: `must not be nested deeper than ${mostDepth} levels` };
  if (!isPlain(value)) return { path: '', message: 'must be plain data' };
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key];
    if (key === '__proto__' || !isStorable(key)) return { path: pointer(key), message: 'must not have this name' };
    const fault = faultBelow(item, depth + 1, seen);
    if (fault) return { ...fault, path: pointer(key) + fault.path };
  }
  return undefined;
}
