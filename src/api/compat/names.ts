/**
 * Maps a client's id to a node name: the id itself if it is a valid name, otherwise a name derived
 * from the id and its hash.
 */
import { createHash } from 'node:crypto';
import { Compile } from 'typebox/compile';
import { Name } from '../../contract/primitives.ts';

const names = Compile(Name);
const isValidName = (id: string): boolean => names.Check(id);
/** The label that keeps the client's id if the node's name differs from it. */
export const idLabel = 'client_id';

export function nameFor(id: string): string {
  if (isValidName(id)) return id;
  const slug = id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
    .replaceAll(/^-+|-+$/g, '');
  const hash = createHash('sha256').update(id).digest('hex').slice(0, 12);
  return slug === '' ? hash : `${slug}-${hash}`;
}

/**
 * Returns the names to look up, in order. AgentField's Go SDK escapes an id twice in addresses, so
 * `my node` arrives as `my%20node`.
 */
export function namesFor(id: string): string[] {
  if (!/%[0-9a-f]{2}/i.test(id)) return [nameFor(id)];
  try {
    return [nameFor(id), nameFor(decodeURIComponent(id))];
  } catch {
    return [nameFor(id)];
  }
}
