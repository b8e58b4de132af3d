/** Compares a cached session with a fact of the evidence tail. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { type NodeStatus, nodeStatusNames } from '../../../lifecycle/model/states.ts';
import { type Cause, leavesVerdict } from '../../../lifecycle/model/transitions.ts';
import type { SessionRow } from './session-rows.ts';

type NodeFields = Pick<SessionRow, 'node_status' | 'verdict_rule' | 'allocation_id'>;

const holdingKinds = new Set(['allocation.provisioning', 'allocation.active']);
const statusKinds = new Set(nodeStatusNames.map((status) => `node.${status}`));

/** Returns the fields of a session that the fact sets. */
function fieldsOf({ kind, data, allocation_id }: Evidence): Partial<NodeFields> {
  // A reused node stays ready while its tenants change; its reports then belong to the new tenant.
  if (holdingKinds.has(kind)) return { allocation_id };
  // A repair restores a row from its evidence. The session may have been read before the repair.
  const { status } = (data.set ?? {}) as { status?: NodeStatus };
  if (kind === 'node.restored') return status ? { node_status: status } : {};
  if (!statusKinds.has(kind) || typeof data.to !== 'string') return {};
  return {
    node_status: data.to as NodeStatus,
    verdict_rule: leavesVerdict(data.by as Cause, data.to as NodeStatus) ? String(data.by) : null,
    // The fact that ends cleaning belongs to the former tenant; later reports belong to no tenant.
    allocation_id: data.from === 'cleaning' ? null : allocation_id,
  };
}

export const contradicts = (session: NodeFields, fact: Evidence): boolean =>
  Object.entries(fieldsOf(fact)).some(([name, value]) => session[name as keyof NodeFields] !== value);
