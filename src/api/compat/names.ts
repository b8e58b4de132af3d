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
