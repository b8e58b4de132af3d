/**
 * Stores residue: resources at providers without a live owner. Opening and settling an entry
 * records evidence in the same transaction. Lock rows of `residue` after those of nodes and
 * allocations; another order could deadlock.
 */
import { type Clock, iso, now as present } from '../../base/clock.ts';
import {
  type AllocationId,
  type CorrelationId,
  type NodeId,
  type NodeInstanceId,
  newResidueId,
  type ResidueId,
  type WorkflowId,
} from '../../base/ids.ts';
import type { Actor, EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { Page } from '../../contract/primitives.ts';
import type { Residue } from '../../contract/supervision/residue.ts';
import type { ResidueReason, ResidueStatus } from '../../lifecycle/findings/residue.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { redactRows } from '../pg/redacted-rows.ts';

export interface ResidueRow {
  residue_id: ResidueId;
  driver: string;
  pool: string | null;
  host: string | null;
  kind: string;
  resource: string;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  allocation_id: AllocationId | null;
  correlation_id: CorrelationId | null;
  workflow_id: WorkflowId | null;
  /** The code of the reason; `reason` is the text. */
  why: ResidueReason;
  reason: string;
  forced_by: Actor | null;
  status: ResidueStatus;
  since: Date;
  /** When the driver last listed the resource. */
  seen_at: Date | null;
  /** When the resource was last checked: listed as an orphan, inspected, or proven gone. */
  verified_at: Date | null;
  /** The result of the last check, as text. */
  seen: string | null;
  cost_per_hour: number | null;
  settled_at: Date | null;
  settled_by: Actor | null;
  settled_reason: string | null;
  proof: Record<string, unknown> | null;
}

export const residueWire = (row: ResidueRow): Residue => ({
  residue_id: row.residue_id,
  driver: row.driver,
  pool: row.pool,
  host: row.host,
  kind: row.kind,
  resource: row.resource,
  node_id: row.node_id,
  node_instance_id: row.node_instance_id,
  allocation_id: row.allocation_id,
  workflow_id: row.workflow_id,
  why: row.why,
  reason: row.reason,
  forced_by: row.forced_by,
  status: row.status,
  since: row.since.toISOString(),
  seen_at: iso(row.seen_at),
  verified_at: iso(row.verified_at),
  seen: row.seen,
  cost_per_hour: row.cost_per_hour,
  settled_at: iso(row.settled_at),
  settled_by: row.settled_by,
  settled_reason: row.settled_reason,
  proof: row.proof,
});

export async function residueRow(db: Queryable, id: string, lock?: 'for update'): Promise<ResidueRow | undefined> {
  return (await db.query<ResidueRow>(`select * from residue where residue_id = $1 ${lock ?? ''}`, [id]))[0];
}

export interface ResidueFilter {
  status?: ResidueStatus;
  pool?: string;
  after?: string;
  limit: number;
}

export async function listResidue(db: Queryable, filter: ResidueFilter): Promise<Page<Residue>> {
  const rows = await db.query<ResidueRow>(
    `select * from residue
     where ($1::text is null or status = $1)
       and ($2::text is null or pool = $2)
       and ($3::text is null or residue_id < $3)
     order by residue_id desc
     limit $4`,
    [filter.status ?? null, filter.pool ?? null, filter.after ?? null, filter.limit + 1],
  );
  const items = rows.slice(0, filter.limit).map(residueWire);
  return { items, next_cursor: rows.length > filter.limit ? (items.at(-1)?.residue_id ?? null) : null };
}

/** The person, operation or rule that caused a fact. */
export interface FactSource {
  layer: EvidenceLayer;
  actor?: Actor | null;
  workflow_id?: WorkflowId | null;
}

const describe = ({ kind, resource, host }: Pick<ResidueRow, 'kind' | 'resource' | 'host'>) =>
  `${kind} ${resource}${host ? ` on host ${host}` : ''}`;

const recordFacts = (
  tx: Transaction,
  rows: ResidueRow[],
  event: 'left' | 'found' | 'gone' | 'adopted' | 'verified',
  summary: (row: ResidueRow) => string,
  source: FactSource,
  now: Date,
) =>
  recordEvidence(
    tx,
    rows.map((row) => ({
      at: now,
      layer: source.layer,
      kind: `residue.${event}`,
      summary: summary(row),
      data: {
        residue_id: row.residue_id,
        driver: row.driver,
        kind: row.kind,
        resource: row.resource,
        why: row.why,
        ...(row.seen && { seen: row.seen }),
        ...(event === 'gone' && row.proof && { proof: row.proof }),
      },
      actor: source.actor ?? null,
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      allocation_id: row.allocation_id,
      correlation_id: row.correlation_id,
      workflow_id: source.workflow_id ?? row.workflow_id,
    })),
  );

export type NewResidue = Pick<
  ResidueRow,
  | 'driver'
  | 'pool'
  | 'host'
  | 'kind'
  | 'resource'
  | 'node_id'
  | 'node_instance_id'
  | 'allocation_id'
  | 'correlation_id'
  | 'workflow_id'
  | 'reason'
  | 'forced_by'
  | 'seen'
  | 'cost_per_hour'
>;

/**
 * Records the resources that a forced release could not prove gone. An open entry for the same
 * resource is updated.
 */
export async function leaveResidue(
  tx: Transaction,
  resources: NewResidue[],
  source: FactSource,
  clock: Clock,
): Promise<ResidueRow[]> {
  const now = present(clock);
  const fresh = resources.map((resource) => ({ ...resource, residue_id: newResidueId(clock), since: now }));
  const rows = await tx.query<ResidueRow>(
    `insert into residue (
       residue_id, driver, pool, host, kind, resource,
       node_id, node_instance_id, allocation_id, correlation_id, workflow_id,
       why, reason, forced_by, since, verified_at, seen, cost_per_hour)
     select residue_id, driver, pool, host, kind, resource,
       node_id, node_instance_id, allocation_id, correlation_id, workflow_id,
       'force-release', reason, forced_by, since, since, seen, cost_per_hour
     from jsonb_to_recordset($1::jsonb) as fresh(
       residue_id text, driver text, pool text, host text, kind text, resource text,
       node_id text, node_instance_id text, allocation_id text, correlation_id text, workflow_id text,
       reason text, forced_by jsonb, since timestamptz, seen text, cost_per_hour double precision)
     on conflict (driver, coalesce(host, ''), resource, coalesce(node_instance_id, '')) where status = 'open'
     do update
       set why = excluded.why, reason = excluded.reason, forced_by = excluded.forced_by,
         allocation_id = excluded.allocation_id, node_id = excluded.node_id, workflow_id = excluded.workflow_id,
         seen = excluded.seen, verified_at = excluded.verified_at
     returning *`,
    [redactRows(tx.redact, fresh, ['resource', 'host', 'reason', 'seen', 'forced_by.name'])],
  );
  await recordFacts(tx, rows, 'left', (row) => `${describe(row)} may remain: ${row.seen ?? row.reason}`, source, now);
  return rows;
}

/** Records a fact for each entry that the orphan watcher has inserted. */
export const recordFoundResidue = (tx: Transaction, rows: ResidueRow[], now: Date): Promise<void> =>
  recordFacts(tx, rows, 'found', (row) => `${describe(row)} has our tags but no live owner`, { layer: 'rule' }, now);

export interface Settlement {
  status: Exclude<ResidueStatus, 'open'>;
  seen?: string;
  reason?: string;
  proof?: Record<string, unknown>;
}

const settledText = { gone: 'is gone', adopted: 'was adopted' } as const;

/**
 * Settles one open entry, or all open entries of an instance that is proven gone. Returns the
 * settled entries.
 */
export async function settleResidue(
  tx: Transaction,
  target: { residue_id: string } | { node_instance_id: string },
  settlement: Settlement,
  source: FactSource,
  now: Date,
): Promise<ResidueRow[]> {
  const [column, value] =
    'residue_id' in target ? ['residue_id', target.residue_id] : ['node_instance_id', target.node_instance_id];
  const rows = await tx.query<ResidueRow>(
    `update residue
     set status = $2, settled_at = $3, settled_by = $4, settled_reason = $5, proof = $6,
       seen = coalesce($7, seen),
       verified_at = case when $2 = 'gone' then $3 else verified_at end
     where ${column} = $1
       and status = 'open'
     returning *`,
    [
      value,
      settlement.status,
      now,
      source.actor ?? null,
      tx.redact.value(settlement.reason ?? null),
      settlement.proof ?? null,
      settlement.seen ?? null,
    ],
  );
  const detail = settlement.reason ?? settlement.seen;
  const outcome = `${settledText[settlement.status]}${detail ? `: ${detail}` : ''}`;
  await recordFacts(tx, rows, settlement.status, (row) => `${describe(row)} ${outcome}`, source, now);
  return rows;
}

/**
 * Stores an inspection that did not prove the resource gone. Records a fact only if the result
 * changed or a person requested the inspection. The fact's kind `verified` means inspected; a
 * resource that is proven gone is settled instead.
 */
export async function recordInspection(
  tx: Transaction,
  residue_id: string,
  seen: string,
  source: FactSource,
  now: Date,
): Promise<void> {
  const rows = await tx.query<ResidueRow & { before: string | null }>(
    `update residue
     set verified_at = $2, seen = $3
     from (
       select residue_id as id, seen as before from residue
       where residue_id = $1
       for update
     ) former
     where residue_id = former.id
       and status = 'open'
     returning residue.*, former.before`,
    [residue_id, now, seen],
  );
  const changed = rows.filter((row) => row.before !== seen || source.actor);
  await recordFacts(tx, changed, 'verified', (row) => `${describe(row)} is not proven gone: ${seen}`, source, now);
}

/** Sets the operation that works on an entry. The caller must have locked the entry. */
export async function setResidueOperation(tx: Transaction, residue_id: string, workflow_id: WorkflowId): Promise<void> {
  await tx.query('update residue set workflow_id = $2 where residue_id = $1', [residue_id, workflow_id]);
}

/** Counts the open entries of each driver, and finds the oldest, for the metrics. */
export function countOpenResidue(db: Queryable): Promise<{ driver: string; open: number; oldest_since: Date }[]> {
  return db.query(
    `select driver, count(*)::int as open, min(since) as oldest_since
     from residue
     where status = 'open'
     group by driver
     order by driver`,
  );
}
