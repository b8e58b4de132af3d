/** What an id or a name stands for. The command line and the console resolve whatever a person pastes by this. */
import { now } from '../../base/clock.ts';
import type { FoundThing } from '../../contract/fleet/find.ts';
import { readOperations } from '../../store/operations/operations.ts';
import { readAllocations } from '../../store/rows/allocations.ts';
import { requestsOf, resolveId } from '../../store/rows/find.ts';
import { findingRow } from '../../store/rows/findings.ts';
import { readNodes } from '../../store/rows/nodes.ts';
import { residueRow } from '../../store/rows/residue.ts';
import { mainTargetOf } from '../found-target.ts';
import type { ApiServices, Handlers } from '../services.ts';

const bare = { name: null, node_id: null, node_instance_id: null, allocation_id: null };

async function leftovers(db: ApiServices['db'], residue: string[], findings: string[]): Promise<FoundThing[]> {
  const rows = await Promise.all([
    ...residue.map(async (id): Promise<FoundThing[]> => {
      const row = await residueRow(db, id);
      if (!row) return [];
      const { node_id, allocation_id, status } = row;
      return [{ ...bare, kind: 'residue', id, status, over: status !== 'open', node_id, allocation_id }];
    }),
    ...findings.map(async (id): Promise<FoundThing[]> => {
      const row = await findingRow(db, id);
      if (!row) return [];
      const { node_id, allocation_id, status } = row;
      return [{ ...bare, kind: 'finding', id, status, over: status !== 'open', node_id, allocation_id }];
    }),
  ]);
  return rows.flat();
}

export const findHandlers: Pick<Handlers, 'thing-find'> = {
  async 'thing-find'({ query, person }, services) {
    const { db } = services;
    const { visibility } = person();
    const resolved = await resolveId(db, query.id, visibility);
    const at = now(services.clock);
    const [allocations, operations, nodes, rest] = await Promise.all([
      readAllocations(db, resolved.allocations, visibility, at),
      readOperations(db, resolved.operations, visibility, at),
      readNodes(db, resolved.nodes, visibility),
      leftovers(db, resolved.residue, resolved.findings),
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
      ...rest,
    ];
    const [only] = allocations;
    const isOneAllocation = allocations.length === 1 && items.length === 1 && only !== undefined;
    return {
      known: items.length > 0 || resolved.as_request,
      as_request: resolved.as_request,
      items,
      meant: mainTargetOf(items, resolved.as_request),
      requests: isOneAllocation ? await requestsOf(db, only.allocation_id) : [],
    };
  },
};
