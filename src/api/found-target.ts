/** Chooses, among the items that an id or a name resolves to, the one whose timeline covers them all. */
import { type Found, type FoundThing, type TargetKind, targetKinds } from '../contract/fleet/find.ts';

type Target = NonNullable<Found['meant']>;

const isTarget = (kind: FoundThing['kind']): kind is TargetKind => targetKinds.some((target) => target === kind);

/** Residue and findings have no timeline; the node or the allocation that they concern has. */
function targetOf({ kind, id, node_id, node_instance_id, allocation_id }: FoundThing): Target[] {
  if (isTarget(kind)) return [{ kind, id, node_instance_id: kind === 'node' ? node_instance_id : null }];
  if (node_id) return [{ kind: 'node', id: node_id, node_instance_id: null }];
  return allocation_id ? [{ kind: 'allocation', id: allocation_id, node_instance_id: null }] : [];
}

/**
 * An allocation is preferred to its operation, and an operation to its node. A name can be used
 * again, so final items count only where no other has it. Null where several are left.
 */
export function mainTargetOf(items: FoundThing[], as_request: boolean): Target | null {
  const live = items.filter(({ over }) => !over);
  const targets = (live.length > 0 && !as_request ? live : items).flatMap(targetOf);
  for (const kind of targetKinds) {
    const [first, second] = targets.filter((target) => target.kind === kind);
    if (first) return second ? null : first;
  }
  return null;
}
