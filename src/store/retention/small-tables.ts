/**
 * Prunes tables with few rows or with an index on age. One statement deletes a bounded number of
 * expired rows.
 */
import type { TimedClass } from '../../lifecycle/limits/retention-classes.ts';

export interface SmallTable {
  class: TimedClass;
  table: string;
  /** SQL: the row may be deleted. $1: the time before which it must have ended. */
  expired: string;
}

export const maxRows = 1_000;

export const smallTables: readonly SmallTable[] = [
  { class: 'requests', table: 'idempotency_keys', expired: 'created_at < $1' },
  { class: 'step_samples', table: 'step_samples', expired: 'at < $1' },
  { class: 'findings', table: 'findings', expired: 'closed_at < $1' },
  {
    class: 'residue',
    table: 'residue',
    expired: `
      status = 'gone'
      and settled_at < $1
      and not exists (select from allocations where allocations.allocation_id = residue.allocation_id)
      -- The proof of the resource may be the proof that the machine is gone.
      and not exists (
        select from instances
        where instances.node_instance_id = residue.node_instance_id)`,
  },
  {
    class: 'boots',
    table: 'budget_changes',
    expired: `
      at < $1
      and exists (
        select from budget_changes later
        where later.pool = budget_changes.pool
          and later.at > budget_changes.at)`,
  },
  {
    class: 'supervision',
    table: 'ingest_gaps',
    // The next gap begins no earlier than the newest one ended.
    expired: 'ended_at < $1 and ended_at < (select max(ended_at) from ingest_gaps)',
  },
  { class: 'supervision', table: 'brake_holds', expired: 'ended_at < $1' },
  { class: 'supervision', table: 'maintenance_windows', expired: 'ends_at < $1' },
  {
    class: 'supervision',
    table: 'replicas',
    expired: `
      ended_at < $1
      -- The next ingest gap begins where the last replica stopped storing heartbeats.
      and flushed_through is distinct from (select max(flushed_through) from replicas)
      and not exists (
        select from operations
        where operations.replica_id = replicas.replica_id
          and operations.status in ('queued', 'running', 'cancelling'))`,
  },
];

export const pruneSmallSql = ({ table, expired }: SmallTable): string => `
  delete from ${table}
  where ctid = any(array(
    select ctid
    from ${table}
    where ${expired}
    limit ${maxRows}
    for update skip locked))
  returning 1`;
