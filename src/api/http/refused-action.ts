/**
 * Reads the action, target and reason of a refused request, for its record. Action and target are
 * kept only if they look like a name or an id, since a refused request may hold any text.
 */
import type { FastifyRequest } from 'fastify';
import { Compile } from 'typebox/compile';
import { type KnownIds, kindOfId } from '../../base/ids.ts';
import { Id } from '../../contract/primitives.ts';
import { canSee, wholeFleet } from '../../lifecycle/visibility.ts';
import { readOperationRow } from '../../store/operations/operations.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { allocationRow } from '../../store/rows/allocations.ts';
import { findingRow } from '../../store/rows/findings.ts';
import { readNode } from '../../store/rows/nodes.ts';
import { residueRow } from '../../store/rows/residue.ts';
import type { Person } from './callers.ts';

export interface RequestedAction {
  action: string;
  /** The target in the address: an id, a pool or a name. */
  target_id: string | null;
  reason: string | null;
  dry_run: boolean;
}

/** The limit in the schema of a reason. */
const maxReasonLength = 1024;

const idShape = Compile(Id);
const nameOrNull = (value: unknown): string | null => (idShape.Check(value) ? (value as string) : null);

/** A refused request may have an unchecked address and an unread body. */
export function readRequestedAction({ params, body, operation, method }: FastifyRequest): RequestedAction {
  const address = (params ?? {}) as Record<string, unknown>;
  const fields = (typeof body === 'object' && body ? body : {}) as Record<string, unknown>;
  return {
    action: nameOrNull(address.action) ?? nameOrNull(fields.action) ?? operation ?? method,
    target_id: nameOrNull(address.id) ?? nameOrNull(address.pool) ?? nameOrNull(address.name),
    reason: typeof fields.reason === 'string' ? fields.reason : null,
    dry_run: fields.dry_run === true,
  };
}

/** Discards the body of a refused request, so that it is not held while the refusal is delayed. */
export function dropBody(request: FastifyRequest): void {
  const { action, reason, dry_run } = (request.body ?? {}) as Record<string, unknown>;
  request.body = {
    action: nameOrNull(action),
    reason: typeof reason === 'string' && reason.length <= maxReasonLength ? reason : null,
    dry_run: dry_run === true,
  };
  request.raw.resume();
}

const lookups: Record<string, (db: Queryable, id: string) => Promise<object | undefined>> = {
  node: (db, id) => readNode(db, id, wholeFleet),
  allocation: (db, id) => allocationRow(db, id),
  workflow: (db, id) => readOperationRow(db, id),
  residue: (db, id) => residueRow(db, id),
  finding: (db, id) => findingRow(db, id),
};

/**
 * Returns the ids for a fact about this target. A tenant can read every fact with the id of its
 * allocation, so the refusal of another tenant's person omits that id.
 */
export async function findTargetIds(target_id: string | null, person: Person | null, db: Queryable): Promise<KnownIds> {
  if (target_id === null || !person) return {};
  const kind = kindOfId(target_id);
  const target = (await lookups[kind ?? '']?.(db, target_id)) as KnownIds | undefined;
  if (!target) return {};
  const { node_id, node_instance_id, allocation_id, workflow_id } = target;
  const { visibility } = person;
  const owner = allocation_id && visibility.kind !== 'fleet' ? await allocationRow(db, allocation_id) : undefined;
  const isOwn = canSee(visibility, owner?.tenant ?? null);
  return {
    node_id,
    node_instance_id,
    ...(isOwn && { allocation_id }),
    ...(kind === 'workflow' && { workflow_id }),
  };
}
