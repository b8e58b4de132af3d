/** State in the URL: every field is a string or absent, and unknown fields are dropped. */

type Search<Names extends string> = { [Name in Names]?: string };

/** The router parses `?q=123` as a number, so convert every value to a string. */
export const text = (value: unknown): string | undefined =>
  value === undefined || value === null || value === '' ? undefined : String(value);

export const fields =
  <Names extends string>(...names: Names[]) =>
  (search: Record<string, unknown>): Search<Names> => {
    const known: Search<Names> = {};
    for (const name of names) {
      const value = text(search[name]);
      if (value !== undefined) known[name] = value as Search<Names>[Names];
    }
    return known;
  };

/** A set in one field: `failed,offline`. */
export const asSet = <T extends string>(value: string | undefined, known: readonly T[]): Set<T> =>
  new Set(known.filter((name) => value?.split(',').includes(name)));

export const fromSet = (set: ReadonlySet<string>): string | undefined =>
  set.size > 0 ? [...set].join(',') : undefined;
