/** Applies one live change to cached data. Pure: returns a new value. */
import type { InfiniteData } from '@tanstack/react-query';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Page } from '../../../../src/contract/primitives.ts';
import type { Filters } from './keys.ts';

export type Pages<T> = InfiniteData<Page<T>, string | null>;

type Fields = Record<string, unknown>;

/** Whether the server would include `value` in a list with this filter. */
export const passesFilter = (value: object, filter: Filters): boolean =>
  Object.entries(filter).every(([field, wanted]) => (value as Fields)[field] === wanted);

/**
 * Replaces the item if the page holds it, or removes it if it no longer passes the filters. A new
 * item is prepended to the first page.
 */
export function patchPage<T extends object>(
  page: Page<T>,
  value: T,
  idOf: (value: T) => string,
  filter: Filters,
  isFirst: boolean,
): Page<T> {
  const id = idOf(value);
  const index = page.items.findIndex((item) => idOf(item) === id);
  if (index === -1) return isFirst && passesFilter(value, filter) ? { ...page, items: [value, ...page.items] } : page;
  const items = passesFilter(value, filter) ? page.items.with(index, value) : page.items.toSpliced(index, 1);
  return { ...page, items };
}

export function patchPages<T extends object>(
  data: Pages<T>,
  value: T,
  idOf: (value: T) => string,
  filter: Filters,
): Pages<T> {
  const id = idOf(value);
  const known = data.pages.findIndex((page) => page.items.some((item) => idOf(item) === id));
  const index = known === -1 ? 0 : known;
  const page = data.pages[index];
  if (!page) return data;
  const patched = patchPage(page, value, idOf, filter, true);
  return patched === page ? data : { ...data, pages: data.pages.with(index, patched) };
}

/** Caps a list that was read in one page, because thousands of items arrive in a mass outage. */
export const maxLive = 300;

/** Caps a list at `maxLive` items and moves its cursor to the last one that remains. */
export function capLiveList<T>(data: Pages<T>, idOf: (value: T) => string): Pages<T> {
  const [only, ...more] = data.pages;
  if (!only || more.length > 0 || only.items.length <= maxLive) return data;
  const items = only.items.slice(0, maxLive);
  const last = items.at(-1);
  return { ...data, pages: [{ ...only, items, next_cursor: last ? idOf(last) : only.next_cursor }] };
}

const byCursor = (evidence: Evidence) => evidence.cursor;

/** Evidence is never updated, so a fact that is already listed is skipped. */
export const patchTimeline = (data: Pages<Evidence>, value: Evidence, filter: Filters): Pages<Evidence> =>
  data.pages.some((page) => page.items.some((item) => item.cursor === value.cursor))
    ? data
    : patchPages(data, value, byCursor, filter);
