/**
 * Maps a client's id to a name of ours: the same if it is valid, otherwise one that only this id
 * gets.
 */
import { createHash } from 'node:crypto';
import { Compile } from 'typebox/compile';
import { Name } from '../../contract/primitives.ts';

const names = Compile(Name);
const fits = (id: string): boolean => names.Check(id);
/** Label with the id, if the name differs from it. */
export const idLabel = 'client_id';

export function nameFor(id: string): string {
  if (fits(id)) return id;
  const plain = id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
    .replaceAll(/^-+|-+$/g, '');
  const mark = createHash('sha256').update(id).digest('hex').slice(0, 12);
  return plain === '' ? mark : `${plain}-${mark}`;
}

/**
 * Their Go SDK escapes an id twice in addresses, so `my node` arrives as `my%20node`. The id as
 * sent goes first.
 */
export function namesFor(id: string): string[] {
  if (!/%[0-9a-f]{2}/i.test(id)) return [nameFor(id)];
  try {
    return [nameFor(id), nameFor(decodeURIComponent(id))];
  } catch {
    return [nameFor(id)];
  }
}
