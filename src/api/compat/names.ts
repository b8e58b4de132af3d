/** What their client calls its node, as a name of ours: the same where it fits, and otherwise one that only that id gets. */
import { createHash } from 'node:crypto';
import { Compile } from 'typebox/compile';
import { Name } from '../../contract/primitives.ts';

const names = Compile(Name);
const fits = (id: string): boolean => names.Check(id);
/** Kept as a label where the name is not the id. */
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

/** Their SDK for Go escapes an id twice in an address, so `my node` arrives as `my%20node`. The id as it was sent goes first. */
export function namesFor(id: string): string[] {
  if (!/%[0-9a-f]{2}/i.test(id)) return [nameFor(id)];
  try {
    return [nameFor(id), nameFor(decodeURIComponent(id))];
  } catch {
    return [nameFor(id)];
  }
}
