/** Resolves an id or a name that a person pasted into the command line or the console. */
import { now } from '../../base/clock.ts';
import { type Found, type FoundThing, type TargetKind, targetKinds } from '../../contract/fleet/find.ts';
import { readOperations } from '../../store/operations/operations.ts';
import { readAllocations } from '../../store/rows/allocations.ts';
import { readRequests, resolveId } from '../../store/rows/find.ts';
import { findingRow } from '../../store/rows/findings.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import { residueRow } from '../../store/rows/residue.ts';
import type { ApiServices, Handlers } from '../services.ts';

const emptyFields = { name: null, node_id: null, node_instance_id: null, allocation_id: null };

async function readResidueAndFindings(
  db: ApiServices['db'],
  residue: string[],
  findings: string[],
): Promise<FoundThing[]> {
  const rows = await Promise.all([
    ...residue.map(async (id): Promise<FoundThing[]> => {
      const row = await residueRow(db, id);
      if (!row) return [];
      const { node_id, allocation_id, status } = row;
      return [{ ...emptyFields, kind: 'residue', id, status, over: status !== 'open', node_id, allocation_id }];
    }),
    ...findings.map(async (id): Promise<FoundThing[]> => {
      const row = await findingRow(db, id);
      if (!row) return [];
      const { node_id, allocation_id, status } = row;
      return [{ ...emptyFields, kind: 'finding', id, status, over: status !== 'open', node_id, allocation_id }];
    }),
  ]);
  return rows.flat();
}

type Target = NonNullable<Found['meant']>;

const isTarget = (kind: FoundThing['kind']): kind is TargetKind => targetKinds.some((target) => target === kind);

/** Residue and findings lead to their machine, or without one to their allocation. */
function targetsOf({ kind, id, node_id, node_instance_id, allocation_id }: FoundThing): Target[] {
  if (isTarget(kind)) return [{ kind, id, node_instance_id: kind === 'node' ? node_instance_id : null }];
  if (node_id) return [{ kind: 'node', id: node_id, node_instance_id: null }];
  return allocation_id ? [{ kind: 'allocation', id: allocation_id, node_instance_id: null }] : [];
}

/**
 * Returns the resource whose page to open. An allocation comes before its operation, and the
 * operation before the machine; null if several of the first kind match. Resources that have not
 * ended come first, since names are reused. A correlation id may be about ended ones.
 */
export function mainTargetOf(items: FoundThing[], isCorrelationId: boolean): Target | null {
  const unfinishedItems = items.filter(({ over }) => !over);
  const targets = (unfinishedItems.length > 0 && !isCorrelationId ? unfinishedItems : items).flatMap(targetsOf);
  for (const kind of targetKinds) {
    const [first, second] = targets.filter((target) => target.kind === kind);
    if (first) return second ? null : first;
  }
  return null;
}

export const findHandlers: Pick<Handlers, 'thing-find'> = {
  async 'thing-find'({ query, person }, services) {
    const { db } = services;
    const { visibility } = person();
    const resolved = await resolveId(db, query.id, visibility);
    const at = now(services.clock);
    const [allocations, operations, nodes, others] = await Promise.all([
      readAllocations(db, resolved.allocations, visibility, at),
      readOperations(db, resolved.operations, visibility, at),
      readNodes(db, resolved.nodes, visibility),
      readResidueAndFindings(db, resolved.residue, resolved.findings),
    ]);
    const { node_instance_id } = resolved;
    const items: FoundThing[] = [
      ...allocations.map(({ allocation_id, name, status, node_id }) => ({
        ...{ kind: 'allocation' as const, id: allocation_id, name, status, over: status === 'released' },
        ...{ node_id, node_instance_id, allocation_id },
      })),
      ...operations.map(({ workflow_id, kind, status, finished_at, node_id, allocation_id, ...operation }) => ({
        ...{ kind: 'operation' as const, id: workflow_id, name: kind, status, over: finished_at !== null },
        ...{ node_id, node_instance_id: operation.node_instance_id, allocation_id },
      })),
      ...nodes.map(({ node_id, name, status, allocation_id }) => ({
        ...{ kind: 'node' as const, id: node_id, name, status, over: status === 'retired' },
        ...{ node_id, node_instance_id, allocation_id },
      })),
      ...others,
    ];
    const [allocation] = allocations;
    const isOneAllocation = allocations.length === 1 && items.length === 1 && allocation !== undefined;
    return {
      known: items.length > 0 || resolved.as_request,
      as_request: resolved.as_request,
      items,
      meant: mainTargetOf(items, resolved.as_request),
      requests: isOneAllocation ? await readRequests(db, allocation.allocation_id) : [],
    };
  },
};
