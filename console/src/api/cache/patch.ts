/** Applies one live change to data that was read. Pure: returns a new value. */
import type { InfiniteData } from '@tanstack/react-query';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Page } from '../../../../src/contract/primitives.ts';
import type { Filters } from './keys.ts';

export type Pages<T> = InfiniteData<Page<T>, string | null>;

type Fields = Record<string, unknown>;

/** Whether the server would include `value` in a list filtered with `by`. */
export const passes = (value: object, by: Filters): boolean =>
  Object.entries(by).every(([field, wanted]) => (value as Fields)[field] === wanted);

/**
 * Replaces a known item, removes one that no longer passes, and prepends a new one to the first
 * page.
 */
export function patchPage<T extends object>(
  page: Page<T>,
  value: T,
  idOf: (value: T) => string,
  by: Filters,
  isFirst: boolean,
): Page<T> {
  const id = idOf(value);
  const at = page.items.findIndex((item) => idOf(item) === id);
  if (at === -1) return isFirst && passes(value, by) ? { ...page, items: [value, ...page.items] } : page;
  const items = passes(value, by) ? page.items.with(at, value) : page.items.toSpliced(at, 1);
  return { ...page, items };
}

export function patchPages<T extends object>(
  data: Pages<T>,
  value: T,
  idOf: (value: T) => string,
  by: Filters,
): Pages<T> {
  const id = idOf(value);
  const known = data.pages.findIndex((page) => page.items.some((item) => idOf(item) === id));
  const at = known === -1 ? 0 : known;
  const page = data.pages[at];
  if (!page) return data;
  const patched = patchPage(page, value, idOf, by, true);
  return patched === page ? data : { ...data, pages: data.pages.with(at, patched) };
}

/** Upper bound for a list read in one page; in a mass outage thousands of items arrive. */
export const maxLive = 300;

/** Moves the cursor, so that the next page starts after the last item that is kept. */
export function cutLive<T>(data: Pages<T>, idOf: (value: T) => string): Pages<T> {
  const [only, ...more] = data.pages;
  if (!only || more.length > 0 || only.items.length <= maxLive) return data;
  const items = only.items.slice(0, maxLive);
  const last = items.at(-1);
  return { ...data, pages: [{ ...only, items, next_cursor: last ? idOf(last) : only.next_cursor }] };
}

const byCursor = (evidence: Evidence) => evidence.cursor;

/** Evidence never changes; there is only new evidence. */
export const patchTimeline = (data: Pages<Evidence>, value: Evidence, by: Filters): Pages<Evidence> =>
  data.pages.some((page) => page.items.some((item) => item.cursor === value.cursor))
    ? data
    : patchPages(data, value, byCursor, by);
