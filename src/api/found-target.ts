/** Which of the things that an id or a name stands for is meant: the one that has the story of all of them. Pure. */
import { type Found, type FoundThing, type TargetKind, targetKinds } from '../contract/fleet/find.ts';

type Meant = NonNullable<Found['meant']>;

const isTarget = (kind: FoundThing['kind']): kind is TargetKind => targetKinds.some((target) => target === kind);

/** What is on a list of its own is about a machine or an allocation, which is what has a story. */
function targetOf({ kind, id, node_id, node_instance_id, allocation_id }: FoundThing): Meant[] {
  if (isTarget(kind)) return [{ kind, id, node_instance_id: kind === 'node' ? node_instance_id : null }];
  if (node_id) return [{ kind: 'node', id: node_id, node_instance_id: null }];
  return allocation_id ? [{ kind: 'allocation', id: allocation_id, node_instance_id: null }] : [];
}

/**
 * Of a request, the claim says more than its operation, and the operation more than the machine. Of a name, what is over gives way
 * to what is not: it may be borne again.
 */
export function meantOf(items: FoundThing[], as_request: boolean): Meant | null {
  const live = items.filter(({ over }) => !over);
  const targets = (live.length > 0 && !as_request ? live : items).flatMap(targetOf);
  for (const kind of targetKinds) {
    const [first, second] = targets.filter((target) => target.kind === kind);
    if (first) return second ? null : first;
  }
  return null;
}
