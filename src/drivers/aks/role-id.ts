/**
 * Derives the name of a role assignment from its role, scope, principal and instance. Role
 * assignments have no tags, so the name alone shows that an assignment is ours, even if the
 * pool's spec is lost.
 */
import { createHash } from 'node:crypto';

export interface Grant {
  scope: string;
  /** The id or the full path of a role. */
  role_definition_id: string;
  principal_id: string;
}

/** A random UUID namespace that only role assignments use. */
const namespace = Buffer.from('5b0f2f7c1de94a0c9b7a6c3e8d241f95', 'hex');

/** A role has a different path in each subscription, but the last part is always its id. */
const lastPart = (path: string) => path.slice(path.lastIndexOf('/') + 1);

/** Azure does not preserve the case of ids, so parts are compared in lower case. */
const comparableParts = ({ scope, role_definition_id, principal_id }: Grant) =>
  [scope, lastPart(role_definition_id), principal_id].map((part) => part.toLowerCase());

export const isSameGrant = (grant: Grant, other: Grant): boolean =>
  comparableParts(grant).join() === comparableParts(other).join();

/** Returns a version 5 UUID. */
export function roleAssignmentId(grant: Grant, node_instance_id: string): string {
  const digest = createHash('sha1')
    .update(namespace)
    .update([...comparableParts(grant), node_instance_id].join('\n'))
    .digest();
  const bytes = [...digest.subarray(0, 16)].map((byte, index) => {
    if (index === 6) return (byte & 0x0f) | 0x50;
    return index === 8 ? (byte & 0x3f) | 0x80 : byte;
  });
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
