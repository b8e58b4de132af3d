/**
 * Checks what schemas cannot: that input is plain data that PostgreSQL can store. Its text and
 * jsonb types refuse NUL and lone surrogates. Deep nesting and foreign prototypes are attacks.
 */
const maxDepth = 32;
/** Five times the largest batch. The check blocks the thread that serves all callers. */
const maxValues = 50_000;

export interface Fault {
  path: string;
  message: string;
}

const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0');

const toPointer = (key: string) =>
  `/${key.toWellFormed().replaceAll('\0', '␀').replaceAll('~', '~0').replaceAll('/', '~1')}`;

function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Finds the first part of `value` that is not plain data. */
export const findFault = (value: unknown): Fault | undefined => findFaultBelow(value, 0, { values: 0 });

function findFaultBelow(value: unknown, depth: number, count: { values: number }): Fault | undefined {
  if (++count.values > maxValues) return { path: '', message: `exceeds the limit of ${maxValues} values` };
  if (typeof value === 'string')
    return isStorable(value) ? undefined : { path: '', message: 'must be text without NUL and lone surrogates' };
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : { path: '', message: 'must be a finite number' };
  if (value === null || typeof value !== 'object') return undefined;
  if (depth >= maxDepth) return { path: '', message: `must not be nested deeper than ${maxDepth} levels` };
  if (!isPlain(value)) return { path: '', message: 'must be plain data' };
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key];
    if (key === '__proto__' || !isStorable(key)) return { path: toPointer(key), message: 'must not have this name' };
    const fault = findFaultBelow(item, depth + 1, count);
    if (fault) return { ...fault, path: toPointer(key) + fault.path };
  }
  return undefined;
}
