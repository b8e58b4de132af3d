/** Fetches lists of any length, page by page. */
import type { Page } from '../../contract/primitives.ts';

export interface Listing<T> {
  items: T[];
  /** True if the list has more than `limit` items. */
  truncated: boolean;
}

const largestPage = 500;

export type FetchPage<T> = (paging: { limit: number; cursor?: string }) => Promise<Page<T>>;

export async function collect<T>(fetchPage: FetchPage<T>, limit: number): Promise<Listing<T>> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await fetchPage({
      limit: Math.min(largestPage, limit - items.length),
      ...(cursor && { cursor }),
    });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null && items.length < limit);
  return { items: items.slice(0, limit), truncated: cursor !== null || items.length > limit };
}

/**
 * Merges several lists, newest first. A list call filters by one status at most. Terminal items far
 * outnumber live ones, so callers fetch the live ones status by status.
 */
export async function collectEach<T extends { created_at: string }, Key>(
  keys: readonly Key[],
  fetchPage: (key: Key) => FetchPage<T>,
  limit: number,
): Promise<Listing<T>> {
  const listings = await Promise.all(keys.map((key) => collect(fetchPage(key), limit)));
  const items = listings.flatMap((listing) => listing.items);
  items.sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
  return {
    items: items.slice(0, limit),
    truncated: items.length > limit || listings.some(({ truncated }) => truncated),
  };
}
