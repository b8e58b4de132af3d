/**
 * Stores the targets of bulk recoveries. All targets are chosen at the start, and the recovery then
 * acts on them one by one.
 */
import type { AllocationId, NodeId, WorkflowId } from '../../base/ids.ts';
import type { RecoveryFilter } from '../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  bulkAction,
  isAboutAllocations,
  type TargetFacts,
} from '../../lifecycle/actions/recovery.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { single } from '../pg/database.ts';

export type TargetState = 'waiting' | 'acting' | 'recovered' | 'failed' | 'skipped';

export interface TargetRow {
  ordinal: number;
  allocation_id: AllocationId | null;
  node_id: NodeId | null;
  state: TargetState;
  act_workflow_id: WorkflowId | null;
  owner_layer: string | null;
  reason: string | null;
  acted_at: Date | null;
  ended_at: Date | null;
}

/** The tables and columns of each kind of target. An allocation has the zone of its machine. */
const subjects = {
  allocation: {
    from: 'allocations subject left join nodes machine on machine.node_id = subject.node_id',
    id: 'subject.allocation_id',
    ids: 'subject.allocation_id, subject.node_id',
    zone: 'machine.zone',
  },
  node: { from: 'nodes subject', id: 'subject.node_id', ids: 'null::text, subject.node_id', zone: 'subject.zone' },
} as const;

const subjectOf = (action: BulkActionName) => subjects[isAboutAllocations(action) ? 'allocation' : 'node'];

interface Selection {
  /** The tables and the `where` clause, for use after the keyword `from`. */
  from: string;
  values: unknown[];
}

function selectTargets(action: BulkActionName, filter: RecoveryFilter, now: Date): Selection {
  const subject = subjectOf(action);
  const values: unknown[] = [];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const where = [`subject.status = any(${bind(filter.status ? [filter.status] : bulkAction(action).from)})`];
  if (filter.pool !== undefined) where.push(`subject.pool = ${bind(filter.pool)}`);
  if (filter.zone !== undefined) where.push(`${subject.zone} = ${bind(filter.zone)}`);
  if (filter.labels !== undefined) where.push(`subject.labels @> ${bind(JSON.stringify(filter.labels))}::jsonb`);
  if (filter.older_than_seconds !== undefined)
    where.push(
      `subject.status_since <= ${bind(now)}::timestamptz - make_interval(secs => ${bind(filter.older_than_seconds)})`,
    );
  return { from: `${subject.from}\n where ${where.join('\n   and ')}`, values };
}

/** Returns the ids of the targets that a recovery would choose now, in order. */
export async function listMatchingTargets(
  db: Queryable,
  action: BulkActionName,
  filter: RecoveryFilter,
  now: Date,
): Promise<string[]> {
  const { id } = subjectOf(action);
  const { from, values } = selectTargets(action, filter, now);
  const rows = await db.query<{ id: string }>(
    `select ${id} as id
     from ${from}
     order by subject.status_since, ${id}`,
    values,
  );
  return rows.map((row) => row.id);
}

/** Chooses all targets and returns their number. Rows that match the filter later are not added. */
export async function chooseTargets(
  tx: Transaction,
  workflow_id: WorkflowId,
  action: BulkActionName,
  filter: RecoveryFilter,
  now: Date,
): Promise<number> {
  const { id, ids } = subjectOf(action);
  const { from, values } = selectTargets(action, filter, now);
  const [counted] = await tx.query<{ chosen: number }>(
    `with chosen as (
       insert into recovery_targets (workflow_id, ordinal, allocation_id, node_id, state)
       select $${values.length + 1}, row_number() over (order by subject.status_since, ${id}), ${ids}, 'waiting'
       from ${from}
       returning 1)
     select count(*)::int as chosen
     from chosen`,
    [...values, workflow_id],
  );
  return counted?.chosen ?? 0;
}

/** A range of target ordinals. Canaries have the lowest ordinals. */
export interface TargetRange {
  after: number;
  through: number;
}

export interface Tally {
  waiting: number;
  acting: number;
  recovered: number;
  failed: number;
  skipped: number;
}

const lastOrdinal = 2 ** 31 - 1;
const allTargets: TargetRange = { after: 0, through: lastOrdinal };

/**
 * Returns the range of the canaries: the first targets that were or will be acted on. A target that
 * ended without an action proves nothing, so the next one takes its place.
 */
export async function findCanaries(db: Queryable, workflow_id: WorkflowId, canaryCount: number): Promise<TargetRange> {
  const [last] = await db.query<{ ordinal: number }>(
    `select ordinal
     from recovery_targets
     where workflow_id = $1
       and (ended_at is null or acted_at is not null)
     order by ordinal
     offset $2
     limit 1`,
    [workflow_id, canaryCount - 1],
  );
  return { after: 0, through: last?.ordinal ?? lastOrdinal };
}

/** Returns the range of all targets after the canaries. */
export const rangeAfter = ({ through }: TargetRange): TargetRange => ({ after: through, through: lastOrdinal });

export async function countTargets(
  db: Queryable,
  workflow_id: WorkflowId,
  range: TargetRange = allTargets,
): Promise<Tally> {
  return single(
    await db.query<Tally>(
      `select
         count(*) filter (where state = 'waiting')::int as waiting,
         count(*) filter (where state = 'acting')::int as acting,
         count(*) filter (where state = 'recovered')::int as recovered,
         count(*) filter (where state = 'failed')::int as failed,
         count(*) filter (where state = 'skipped')::int as skipped
       from recovery_targets
       where workflow_id = $1
         and ordinal > $2
         and ordinal <= $3`,
      [workflow_id, range.after, range.through],
    ),
  );
}

/** Computes the recent pace from the rows alone, so that a replica that takes over keeps it. */
export async function readPace(
  db: Queryable,
  workflow_id: WorkflowId,
  now: Date,
): Promise<{ acted_last_minute: number; seconds_since_act: number | null }> {
  return single(
    await db.query<{ acted_last_minute: number; seconds_since_act: number | null }>(
      `select
         count(*) filter (where acted_at > $2::timestamptz - interval '60 seconds')::int as acted_last_minute,
         extract(epoch from $2::timestamptz - max(acted_at))::double precision as seconds_since_act
       from recovery_targets
       where workflow_id = $1
         and acted_at is not null`,
      [workflow_id, now],
    ),
  );
}

export type JudgedTarget = TargetRow &
  TargetFacts & {
    /** The reason and the owner of the target's present status. */
    why: string | null;
    blamed: string | null;
    /** The operation that last worked on the target, even if another request started it. */
    last_workflow_id: WorkflowId | null;
  };

const judgedColumns = (action: BulkActionName) =>
  isAboutAllocations(action)
    ? {
        join: 'join allocations subject on subject.allocation_id = target.allocation_id',
        why: 'subject.reason',
        blamed: 'subject.owner_layer',
      }
    : {
        join: 'join nodes subject on subject.node_id = target.node_id',
        why: `subject.verdict ->> 'reason'`,
        blamed: 'null::text',
      };

const judgedTargets = (action: BulkActionName) => {
  const { join, why, blamed } = judgedColumns(action);
  return `select
      target.*,
      subject.status,
      subject.status_since,
      ${why} as why,
      ${blamed} as blamed,
      subject.workflow_id as last_workflow_id,
      operation.status as operation_status
    from recovery_targets target
    ${join}
    left join operations operation on operation.workflow_id = target.act_workflow_id`;
};

/** Returns the targets whose action has not ended, with their present status. */
export const listActingTargets = (
  db: Queryable,
  workflow_id: WorkflowId,
  action: BulkActionName,
): Promise<JudgedTarget[]> =>
  db.query<JudgedTarget>(
    `${judgedTargets(action)}
     where target.workflow_id = $1
       and target.state = 'acting'
     order by target.ordinal`,
    [workflow_id],
  );

/** Returns the next target to act on, with its present status. */
export async function findNextTarget(
  db: Queryable,
  workflow_id: WorkflowId,
  action: BulkActionName,
  range: TargetRange,
): Promise<JudgedTarget | undefined> {
  const [row] = await db.query<JudgedTarget>(
    `${judgedTargets(action)}
     where target.workflow_id = $1
       and target.state = 'waiting'
       and target.ordinal > $2
       and target.ordinal <= $3
     order by target.ordinal
     limit 1`,
    [workflow_id, range.after, range.through],
  );
  return row;
}

export type TargetChange = Pick<TargetRow, 'state'> & Partial<Omit<TargetRow, 'ordinal' | 'allocation_id' | 'node_id'>>;

export async function changeTarget(
  tx: Transaction,
  workflow_id: WorkflowId,
  ordinal: number,
  change: TargetChange,
): Promise<void> {
  const assignments = Object.keys(change).map((column, index) => `${column} = $${index + 3}`);
  await tx.query(
    `update recovery_targets set ${assignments.join(', ')}
     where workflow_id = $1
       and ordinal = $2`,
    [workflow_id, ordinal, ...Object.values(change)],
  );
}

/** Skips all targets that have not ended, including those whose action is running. */
export async function skipTargets(
  tx: Transaction,
  workflow_id: WorkflowId,
  reasons: { waiting: string; acting: string },
  now: Date,
): Promise<void> {
  await tx.query(
    `update recovery_targets set
       state = 'skipped',
       reason = case state when 'waiting' then $2 else $3 end,
       ended_at = $4
     where workflow_id = $1
       and state in ('waiting', 'acting')`,
    [workflow_id, reasons.waiting, reasons.acting, now],
  );
}

/** Returns targets that ended in this state, oldest first. */
export const listTargetsInState = (
  db: Queryable,
  workflow_id: WorkflowId,
  state: 'failed' | 'skipped',
  limit: number,
): Promise<TargetRow[]> =>
  db.query<TargetRow>(
    `select *
     from recovery_targets
     where workflow_id = $1
       and state = $2
     order by ended_at, ordinal
     limit $3`,
    [workflow_id, state, limit],
  );
