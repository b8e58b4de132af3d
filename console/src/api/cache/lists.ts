/**
 * Reads lists page by page, newest first, and single items. Replays the live changes that arrived
 * during the request.
 */
import type { Page } from '../../../../src/contract/primitives.ts';
import { journal, type Topic, type ValueOf } from './journal.ts';
import type { Filters } from './keys.ts';
import { patchPage } from './patch.ts';

export const firstPage: string | null = null;

export const nextPage = (page: { next_cursor: string | null }): string | null => page.next_cursor;

export async function readPage<T extends Topic>(
  topic: T,
  filter: Filters,
  cursor: string | null,
  idOf: (value: ValueOf<T>) => string,
  read: () => Promise<Page<ValueOf<T>>>,
): Promise<Page<ValueOf<T>>> {
  const mark = journal.mark();
  const page = await read();
  return journal
    .since(mark, topic)
    .reduce((patched, value) => patchPage(patched, value, idOf, filter, cursor === null), page);
}

export async function readOne<T extends Topic>(
  topic: T,
  id: string,
  idOf: (value: ValueOf<T>) => string,
  read: () => Promise<ValueOf<T>>,
): Promise<ValueOf<T>> {
  const mark = journal.mark();
  const value = await read();
  return journal.since(mark, topic).findLast((change) => idOf(change) === id) ?? value;
}
