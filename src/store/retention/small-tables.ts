/**
 * Tables that hold few rows, or whose index is their age. One statement deletes a bounded number of
 * expired rows.
 */
import type { TimedClass } from '../../lifecycle/limits/retention-classes.ts';

export interface SmallTable {
  of: TimedClass;
  table: string;
  /** Whether a row may be deleted. $1: the rows that ended before this time are expired. */
  expired: string;
}

export const maxRows = 1_000;

export const smallTables: readonly SmallTable[] = [
  { of: 'requests', table: 'idempotency_keys', expired: 'created_at < $1' },
  { of: 'step_samples', table: 'step_samples', expired: 'at < $1' },
  { of: 'findings', table: 'findings', expired: 'closed_at < $1' },
  {
    of: 'residue',
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
    of: 'boots',
    table: 'budget_changes',
    expired: `
      at < $1
      and exists (
        select from budget_changes later
        where later.pool = budget_changes.pool
          and later.at > budget_changes.at)`,
  },
  {
    of: 'supervision',
    table: 'ingest_gaps',
    // The next gap begins no earlier than the newest one ended.
    expired: 'ended_at < $1 and ended_at < (select max(ended_at) from ingest_gaps)',
  },
  { of: 'supervision', table: 'brake_holds', expired: 'ended_at < $1' },
  { of: 'supervision', table: 'maintenance_windows', expired: 'ends_at < $1' },
  {
    of: 'supervision',
    table: 'replicas',
    expired: `
      ended_at < $1
      -- A gap in listening begins where the last replica stopped storing heartbeats.
      and flushed_through is distinct from (select max(flushed_through) from replicas)
      and not exists (
        select from operations
        where operations.replica_id = replicas.replica_id
          and operations.status in ('queued', 'running', 'cancelling'))`,
  },
];

export const pruneSmall = ({ table, expired }: SmallTable): string => `
  delete from ${table}
  where ctid = any(array(
    select ctid
    from ${table}
    where ${expired}
    limit ${maxRows}
    for update skip locked))
  returning 1`;
