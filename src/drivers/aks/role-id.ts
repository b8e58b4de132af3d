/**
 * Names of role assignments. They carry no tags, so the name is derived from role, scope, principal
 * and instance: one can be recognised as ours even without its pool.
 */
import { createHash } from 'node:crypto';

export interface Grant {
  scope: string;
  /** The id of a role, or its whole path. */
  role_definition_id: string;
  principal_id: string;
}

/** A random namespace, for this purpose only. */
const namespace = Buffer.from('5b0f2f7c1de94a0c9b7a6c3e8d241f95', 'hex');

/** The same role has a path in each subscription; the last part is its id. */
const lastPart = (path: string) => path.slice(path.lastIndexOf('/') + 1);

/** Azure returns ids in any case. */
const written = ({ scope, role_definition_id, principal_id }: Grant) =>
  [scope, lastPart(role_definition_id), principal_id].map((part) => part.toLowerCase());

export const isSameGrant = (one: Grant, other: Grant): boolean => written(one).join() === written(other).join();

/** A UUID of version 5. */
export function roleAssignmentId(grant: Grant, node_instance_id: string): string {
  const digest = createHash('sha1')
    .update(namespace)
    .update([...written(grant), node_instance_id].join('\n'))
    .digest();
  const bytes = [...digest.subarray(0, 16)].map((byte, at) => {
    if (at === 6) return (byte & 0x0f) | 0x50;
    return at === 8 ? (byte & 0x3f) | 0x80 : byte;
  });
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
