/**
 * The statements that delete ended rows, one walk for each kind of row. A walk reads the ids of one
 * page by an index, and then deletes those rows of the page that nothing needs any more. So a pass
 * costs the same however many rows stay.
 */
import type { IdKind } from '../../base/ids.ts';
import type { TimedClass } from '../../lifecycle/limits/retention-classes.ts';
import { isProvenAbsent } from '../rows/proven-absent.ts';
import { ofSameTenant } from '../visibility.ts';

/** The number of ids that a walk reads in one pass. */
export const pageSize = 500;
/** One instance may have thousands of log chunks, so a batch is limited by these. */
export const maxChunks = 2_000;

export interface RetentionWalk {
  class: TimedClass;
  /** The ids of this kind sort by time, so the page ends where all ids are too young. */
  id_kind: IdKind;
  /** $1: the last id of the page before. $2: a bound for ids that are old enough. */
  page: string;
  /** $1: the ids of the page. $2: rows that ended before this time are deleted. */
  prune: string;
  /** The page is pruned again if it deleted this many rows. */
  max_rows?: number;
  /** The kind of the fact that records a deleted row. `prune` then returns what the fact says. */
  fact?: 'allocation.pruned' | 'node.pruned';
}

/** Selects the next ids of rows that may have ended. An index should match `mayHaveEnded`. */
const pageSql = (table: string, key: string, mayHaveEnded = 'true') => `
  select ${key} as id
  from ${table}
  where ${mayHaveEnded}
    and ${key} > $1
    and ${key} < $2
  order by ${key}
  limit ${pageSize}`;

const isOpen = (operation: string) => `${operation}.status in ('queued', 'running', 'cancelling')`;

const tasks: RetentionWalk = {
  class: 'tasks',
  id_kind: 'task',
  page: pageSql('tasks', 'task_id'),
  prune: `
    with ended as materialized (
      select task_id
      from tasks task
      where task_id = any($1)
        and status in ('succeeded', 'failed')
        and coalesce(finished_at, expires_at) < $2
        and not exists (
          select from operations operation
          where operation.workflow_id = task.workflow_id
            and ${isOpen('operation')})
      for update skip locked
    )
    delete from tasks
    using ended
    where tasks.task_id = ended.task_id
    returning 1`,
};

const endedInstances = pageSql('instances', 'node_instance_id', 'fenced_at is not null');

const isPresent = (instance: string) => `
  exists (
    select from nodes live
    where live.node_id = ${instance}.node_id
      and live.node_instance_id = ${instance}.node_instance_id
      and live.status <> 'retired')`;

const logs: RetentionWalk = {
  class: 'logs',
  id_kind: 'instance',
  page: endedInstances,
  max_rows: maxChunks,
  prune: `
    with ended as materialized (
      select node_instance_id
      from instances instance
      where node_instance_id = any($1)
        and fenced_at < $2
        and not (${isPresent('instance')})
    ),
    expired as materialized (
      select chunk.node_instance_id, chunk.last_seq
      from ended
      join node_log_chunks chunk using (node_instance_id)
      limit ${maxChunks}
    ),
    -- The size limit of a node's logs sums these rows.
    emptied as (
      update node_log_ends
      set bytes = 0, unchecked_bytes = 0, loose_chunks = 0
      where node_instance_id in (select node_instance_id from expired)
    )
    delete from node_log_chunks
    using expired
    where node_log_chunks.node_instance_id = expired.node_instance_id
      and node_log_chunks.last_seq = expired.last_seq
    returning 1`,
};

const operations: RetentionWalk = {
  class: 'operations',
  id_kind: 'workflow',
  // By status, because the index begins with it.
  page: `
    select workflow_id as id
    from unnest(array['succeeded', 'failed', 'cancelled']) as ended(status)
    cross join lateral (
      select workflow_id
      from operations
      where operations.status = ended.status
        and workflow_id > $1
        and workflow_id < $2
      order by workflow_id
      limit ${pageSize}
    ) next
    order by workflow_id
    limit ${pageSize}`,
  prune: `
    with ended as materialized (
      select workflow_id
      from operations operation
      where workflow_id = any($1)
        and status in ('succeeded', 'failed', 'cancelled')
        and finished_at < $2
        and not exists (
          select from allocations held
          where held.allocation_id = operation.allocation_id
            and held.status <> 'released')
        -- The operations of a node in these statuses decide whether it may be used again.
        and not exists (
          select from nodes fenced
          where fenced.node_id = operation.node_id
            and fenced.status in ('failed', 'draining', 'cleaning', 'quarantined'))
        and not exists (
          select from nodes live
          where live.workflow_id = operation.workflow_id
            and live.status <> 'retired')
        and not exists (
          select from residue
          where residue.workflow_id = operation.workflow_id
            and residue.status = 'open')
      for update skip locked
    ),
    gone_steps as (
      delete from steps
      using ended
      where steps.workflow_id = ended.workflow_id
    ),
    gone_receipts as (
      delete from step_receipts
      using ended
      where step_receipts.workflow_id = ended.workflow_id
    ),
    gone_targets as (
      delete from recovery_targets
      using ended
      where recovery_targets.workflow_id = ended.workflow_id
    )
    delete from operations
    using ended
    where operations.workflow_id = ended.workflow_id
    returning 1`,
};

const allocations: RetentionWalk = {
  class: 'allocations',
  id_kind: 'allocation',
  page: pageSql('allocations', 'allocation_id', `status = 'released'`),
  fact: 'allocation.pruned',
  prune: `
    with ended as materialized (
      select allocation_id, node_id, pool, tenant, name, correlation_id, status_since as ended_at
      from allocations allocation
      where allocation_id = any($1)
        and status = 'released'
        and status_since < $2
        and not exists (select from operations where operations.allocation_id = allocation.allocation_id)
        and not exists (select from recovery_targets where recovery_targets.allocation_id = allocation.allocation_id)
        and not exists (
          select from residue
          where residue.allocation_id = allocation.allocation_id
            and residue.status <> 'gone')
      for update skip locked
    ),
    -- The allocations of a tenant hide its boot stages from other tenants. The stages are deleted
    -- with the last of these allocations, because the next tenant of the node would see them.
    gone_stages as (
      delete from boot_stages
      using ended, nodes, instances
      where nodes.node_id = ended.node_id
        and nodes.status <> 'retired'
        and instances.node_id = nodes.node_id
        and boot_stages.node_instance_id = instances.node_instance_id
        and boot_stages.reported_at < ended.ended_at
        -- An allocation that is due hides nothing: another replica may be deleting it now.
        and not exists (
          select from allocations kept
          where kept.node_id = ended.node_id
            and ${ofSameTenant('kept', 'ended')}
            and (kept.status <> 'released' or kept.status_since >= $2))
    )
    delete from allocations
    using ended
    where allocations.allocation_id = ended.allocation_id
    returning
      ended.allocation_id, null as node_id, ended.pool, ended.tenant as owner, ended.name,
      ended.correlation_id, ended.ended_at`,
};

/** Tables whose rows belong to an instance by a foreign key. */
const instanceTables = ['boot_signs', 'boot_stages', 'heartbeats', 'probes', 'node_log_ends'];

const deleteInstanceRowsSql = (ended: string) =>
  instanceTables
    .map(
      (table) => `
    gone_${table} as (
      delete from ${table}
      using ${ended} ended
      where ${table}.node_instance_id = ended.node_instance_id
    )`,
    )
    .join(',');

/**
 * The machine may still return with its credential. The reply that it is fenced then ends its
 * command; after a reply that the credential is unknown, the command would keep running.
 */
const mayReturn = (instance: string) => `(
  coalesce(${instance}.credential_hash, ${instance}.next_credential_hash) is not null
  and not ${isProvenAbsent(`${instance}.node_instance_id`)})`;

const instances: RetentionWalk = {
  class: 'nodes',
  id_kind: 'instance',
  page: endedInstances,
  prune: `
    with ended as materialized (
      select instance.node_instance_id
      from instances instance
      join nodes node using (node_id)
      where instance.node_instance_id = any($1)
        and instance.fenced_at < $2
        and instance.node_instance_id is distinct from node.node_instance_id
        and not ${mayReturn('instance')}
        and not exists (select from tasks where tasks.node_instance_id = instance.node_instance_id)
        and not exists (select from node_log_chunks chunk where chunk.node_instance_id = instance.node_instance_id)
        and not exists (
          select from residue
          where residue.node_instance_id = instance.node_instance_id
            and residue.status <> 'gone')
        and (
          node.status = 'retired'
          or (
            instance.unproven_since is null
            -- Keeps what the node needs to register again: its last protocol and its used tokens.
            and (instance.registered_at is null or exists (
              select from instances later
              where later.node_id = instance.node_id
                and later.registered_at is not null
                and later.created_at > instance.created_at))
            and (instance.join_token_id is null or exists (
              select from instances later
              where later.node_id = instance.node_id
                and later.attempt > instance.attempt
                and (later.join_token_id = instance.join_token_id
                  or instance.join_token_id = any(later.earlier_join_token_ids))))
          )
        )
      for update of instance skip locked
    ),
    ${deleteInstanceRowsSql('ended')}
    delete from instances
    using ended
    where instances.node_instance_id = ended.node_instance_id
    returning 1`,
};

const nodes: RetentionWalk = {
  class: 'nodes',
  id_kind: 'node',
  page: pageSql('nodes', 'node_id', `status = 'retired'`),
  fact: 'node.pruned',
  prune: `
    with ended as materialized (
      select node_id, pool, name, correlation_id, status_since as ended_at
      from nodes node
      where node_id = any($1)
        and status = 'retired'
        and status_since < $2
        and not exists (select from allocations where allocations.node_id = node.node_id)
        and not exists (select from operations where operations.node_id = node.node_id)
        and not exists (select from tasks where tasks.node_id = node.node_id)
        and not exists (select from recovery_targets where recovery_targets.node_id = node.node_id)
        and not exists (select from node_log_chunks chunk where chunk.node_id = node.node_id)
        and not exists (
          select from findings
          where findings.node_id = node.node_id
            and findings.closed_at is null)
        and not exists (
          select from residue
          where residue.node_id = node.node_id
            and residue.status <> 'gone')
        and not exists (
          select from instances instance
          where instance.node_id = node.node_id
            and ${mayReturn('instance')})
      for update skip locked
    ),
    ended_instances as materialized (
      select instances.node_instance_id
      from ended
      join instances using (node_id)
    ),
    ${deleteInstanceRowsSql('ended_instances')},
    gone_instances as (
      delete from instances
      using ended_instances ended
      where instances.node_instance_id = ended.node_instance_id
    ),
    gone_looks as (
      delete from node_looks
      using ended
      where node_looks.node_id = ended.node_id
    )
    delete from nodes
    using ended
    where nodes.node_id = ended.node_id
    returning
      ended.node_id, null as allocation_id, ended.pool, null as owner, ended.name,
      ended.correlation_id, ended.ended_at`,
};

const bootSamples: RetentionWalk = {
  class: 'boots',
  id_kind: 'instance',
  page: `
    select distinct node_instance_id as id
    from boot_samples
    where node_instance_id > $1
      and node_instance_id < $2
    order by node_instance_id
    limit ${pageSize}`,
  prune: `
    delete from boot_samples
    where node_instance_id = any($1)
      and at < $2
    returning 1`,
};

/** In an order that foreign keys allow. */
export const walks: readonly RetentionWalk[] = [tasks, logs, operations, allocations, instances, nodes, bootSamples];
