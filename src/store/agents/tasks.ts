/**
 * Queues, leases and answers tasks, which are typed work for the agent of a node. The status of a
 * task goes queued → leased → succeeded | failed.
 */
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, TaskId, WorkflowId } from '../../base/ids.ts';
import type { TaskResult } from '../../contract/agent/agent.ts';
import type { TaskStatus } from '../../lifecycle/model/states.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export interface TaskRow {
  task_id: TaskId;
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  type: string;
  params: Record<string, unknown>;
  status: TaskStatus;
  lease_seconds: number;
  lease_until: Date | null;
  leases: number;
  /** How often the task was delivered again in this lease, because a response was lost. */
  redeliveries: number;
  /** When the server received the poll that last got the task. */
  polled_at: Date | null;
  expires_at: Date;
  progress: { message?: string; percent?: number } | null;
  result: Record<string, unknown> | null;
  error: { code: string; message: string } | null;
  result_signature: string | null;
  correlation_id: CorrelationId | null;
  allocation_id: AllocationId | null;
  workflow_id: WorkflowId | null;
  created_at: Date;
  finished_at: Date | null;
}

/** After this many leases the task fails. */
export const maxLeases = 3;

/**
 * Limits redeliveries within one lease. After that, the lease expires and counts. The limit is low,
 * because the server cannot tell a lost delivery from a task that crashes its agent at once.
 */
export const maxRedeliveries = 4;

const factOf = (
  task: TaskRow,
  kind: Fact['kind'],
  summary: string,
  now: Date,
  layer: Fact['layer'],
  data: Record<string, unknown> = {},
): Fact => ({
  at: now,
  layer,
  kind,
  summary,
  data: { task_id: task.task_id, type: task.type, ...data },
  node_id: task.node_id,
  node_instance_id: task.node_instance_id,
  correlation_id: task.correlation_id,
  allocation_id: task.allocation_id,
  workflow_id: task.workflow_id,
});

export type NewTask = Pick<
  TaskRow,
  | 'task_id'
  | 'node_id'
  | 'node_instance_id'
  | 'type'
  | 'params'
  | 'lease_seconds'
  | 'expires_at'
  | 'correlation_id'
  | 'allocation_id'
  | 'workflow_id'
>;

export async function queueTask(tx: Transaction, newTask: NewTask, now: Date): Promise<void> {
  const [task] = await tx.query<TaskRow>(
    `insert into tasks
       (task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at,
        correlation_id, allocation_id, workflow_id, created_at)
     values
       ($1, $2, $3, $4, $5, 'queued', $6, $7, $8, $9, $10, $11)
     returning *`,
    [
      newTask.task_id,
      newTask.node_id,
      newTask.node_instance_id,
      newTask.type,
      newTask.params,
      newTask.lease_seconds,
      newTask.expires_at,
      newTask.correlation_id,
      newTask.allocation_id,
      newTask.workflow_id,
      now,
    ],
  );
  if (task)
    await recordEvidence(tx, [factOf(task, 'task.queued', `task ${task.type} waits for the node`, now, 'workflow')]);
}

export async function taskRow(db: Queryable, id: string): Promise<TaskRow | undefined> {
  return (await db.query<TaskRow>('select * from tasks where task_id = $1', [id], { prepared: true }))[0];
}

/** Finds the open ping that an operator asked for, so that a second request reuses it. */
export async function findOpenPing(tx: Transaction, id: NodeInstanceId, now: Date): Promise<TaskRow | undefined> {
  const [task] = await tx.query<TaskRow>(
    `select *
     from tasks
     where node_instance_id = $1
       and type = 'ping'
       -- Pings of an operation have a workflow.
       and workflow_id is null
       and status in ('queued', 'leased')
       and expires_at > $2
     order by created_at desc
     limit 1`,
    [id, now],
  );
  return task;
}

export async function countWaiting(db: Queryable, id: NodeInstanceId): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count
     from tasks
     where node_instance_id = $1
       and status = 'queued'`,
    [id],
  );
  return row?.count ?? 0;
}

export interface Poll {
  /** When the server received the poll. */
  polled_at: Date;
  /** The agent has no task in progress, so it did not receive the task of an earlier poll. */
  idle: boolean;
}

/** Which tasks an agent may get now. A fenced node gets only tasks of its release. */
export type TaskFilter = 'all' | 'release' | 'pings';

/** SQL patterns of the task types. */
const typePatterns: Record<TaskFilter, readonly string[]> = { all: ['%'], release: ['release.%'], pings: ['ping'] };

/**
 * Leases the oldest queued task that the filter allows. If an idle agent has a task that an earlier
 * poll leased and that made no progress, its delivery was lost, so the agent gets that task again.
 * A redelivery stays within the same lease, and only the first is recorded.
 */
export async function leaseNext(
  tx: Transaction,
  id: NodeInstanceId,
  now: Date,
  filter: TaskFilter,
  { polled_at, idle }: Poll = { polled_at: now, idle: false },
): Promise<TaskRow | undefined> {
  const [task] = await tx.query<TaskRow>(
    `update tasks
     set status = 'leased',
       leases = case when status = 'queued' then leases + 1 else leases end,
       redeliveries = case when status = 'queued' then 0 else redeliveries + 1 end,
       lease_until = $2::timestamptz + make_interval(secs => lease_seconds),
       progress = null,
       polled_at = $4
     where task_id = coalesce(
       (select task_id
        from tasks
        where $5
          and node_instance_id = $1
          and status = 'leased'
          and progress is null
          -- A long poll that its agent has abandoned must not take the task from a later poll.
          and polled_at < $4
          and redeliveries < $6
          and lease_until > $2
          and expires_at > $2
          and type like any($3)
        order by created_at
        limit 1
        for update),
       (select task_id
        from tasks
        where node_instance_id = $1
          and status = 'queued'
          and expires_at > $2
          and type like any($3)
        order by created_at
        limit 1
        for update skip locked))
     returning *`,
    [id, now, typePatterns[filter], polled_at, idle, maxRedeliveries],
    { prepared: true },
  );
  if (task && task.redeliveries === 0)
    await recordEvidence(tx, [
      factOf(task, 'task.leased', `the node took task ${task.type}`, now, 'node', { leases: task.leases }),
    ]);
  if (task?.redeliveries === 1) {
    const summary = `task ${task.type} was delivered again, because the node did not receive it`;
    await recordEvidence(tx, [factOf(task, 'task.redelivered', summary, now, 'transport', { leases: task.leases })]);
  }
  return task;
}

export async function renewTaskLease(
  tx: Transaction,
  id: string,
  instance: NodeInstanceId,
  progress: TaskRow['progress'],
  now: Date,
): Promise<TaskRow | undefined> {
  const [task] = await tx.query<TaskRow>(
    `update tasks
     set lease_until = $3::timestamptz + make_interval(secs => lease_seconds),
       progress = $4
     where task_id = $1
       and node_instance_id = $2
       and status = 'leased'
     returning *`,
    [id, instance, now, tx.redact.value(progress)],
  );
  return task;
}

/**
 * A proof is stored unredacted in the task's row, because its signature covers the exact text. No
 * API returns that row, and the evidence of the proof is redacted.
 */
const isProof = ({ type }: TaskRow) => type === 'release.clean';

/** Records the lease holder's answer. A repeated status is accepted, a different one refused. */
export async function answerTask(
  tx: Transaction,
  id: string,
  instance: NodeInstanceId,
  answer: TaskResult,
  now: Date,
): Promise<'answered' | 'unknown' | 'lease_lost'> {
  const [task] = await tx.query<TaskRow>(
    'select * from tasks where task_id = $1 and node_instance_id = $2 for update',
    [id, instance],
  );
  if (!task) return 'unknown';
  if (task.status === answer.status) return 'answered';
  if (task.status !== 'leased') return 'lease_lost';
  const result = (isProof(task) ? answer.result : tx.redact.value(answer.result)) ?? null;
  await tx.query(
    `update tasks
     set status = $2,
       result = $3,
       error = $4,
       result_signature = $5,
       finished_at = $6,
       lease_until = null
     where task_id = $1`,
    [id, answer.status, result, tx.redact.value(answer.error ?? null), answer.signature ?? null, now],
  );
  const summary =
    answer.status === 'succeeded'
      ? `task ${task.type} succeeded`
      : `task ${task.type} failed: ${answer.error?.message ?? 'no reason given'}`;
  await recordEvidence(tx, [
    factOf(task, `task.${answer.status}`, summary, now, 'node', {
      ...(answer.result && { result: answer.result }),
      ...(answer.error && { error: answer.error }),
    }),
  ]);
  return 'answered';
}

/**
 * Applies the rule `task-lease`: requeues tasks with an expired lease, and fails tasks that expired
 * or had too many leases. Returns the number of tasks changed.
 */
export async function expireLeases(tx: Transaction, now: Date, limit: number): Promise<number> {
  const rows = await tx.query<TaskRow>(
    `update tasks
     set status = case when leases >= $2 or expires_at <= $1 then 'failed' else 'queued' end,
       error = case when leases >= $2 or expires_at <= $1
         then jsonb_build_object('code', 'task_given_up', 'message',
           case when expires_at <= $1
             then 'the task expired before the node answered'
             else 'the lease expired ' || leases || ' times' end) end,
       finished_at = case when leases >= $2 or expires_at <= $1 then $1::timestamptz end,
       lease_until = null
     where task_id in (
       select task_id
       from tasks
       where (status = 'leased' and lease_until <= $1)
         or (status in ('queued', 'leased') and expires_at <= $1)
       order by expires_at
       limit $3
       for update skip locked)
     returning *`,
    [now, maxLeases, limit],
  );
  await recordEvidence(
    tx,
    rows.map((task) =>
      factOf(
        task,
        task.status === 'failed' ? 'task.failed' : 'task.requeued',
        task.error?.message ?? `the lease of task ${task.type} expired`,
        now,
        'rule',
        { rule: 'task-lease', leases: task.leases },
      ),
    ),
  );
  return rows.length;
}

/** Returns whether the agent holds a lease on a task that is not part of its node's release. */
export async function hasLeasedWork(db: Queryable, id: NodeInstanceId): Promise<boolean> {
  const [row] = await db.query<{ busy: boolean }>(
    `select exists (
       select 1
       from tasks
       where node_instance_id = $1
         and status = 'leased'
         and type not like 'release.%') as busy`,
    [id],
  );
  return row?.busy ?? false;
}

/** Fails the open tasks of revoked instances, because their agents can no longer answer. */
export async function withdrawTasks(
  tx: Transaction,
  instances: { node_instance_id: NodeInstanceId; reason: string }[],
  now: Date,
): Promise<void> {
  const rows = await tx.query<TaskRow & { reason: string }>(
    `update tasks
     set status = 'failed',
       finished_at = $2,
       lease_until = null,
       error = jsonb_build_object('code', 'task_withdrawn', 'message', withdrawn.reason)
     from jsonb_to_recordset($1::jsonb) as withdrawn(node_instance_id text, reason text)
     where tasks.node_instance_id = withdrawn.node_instance_id
       and tasks.status in ('queued', 'leased')
     returning tasks.*, withdrawn.reason`,
    [JSON.stringify(instances), now],
  );
  await recordEvidence(
    tx,
    rows.map(({ reason, ...task }) =>
      factOf(task, 'task.failed', `task ${task.type} was withdrawn: ${reason}`, now, 'workflow'),
    ),
  );
}
