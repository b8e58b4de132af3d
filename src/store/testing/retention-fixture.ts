/** For tests of retention: rows of every class, and passes over virtual days. */
import { secondsLater } from '../../base/clock.ts';
import { newNodeInstanceId, newResidueId, newTaskId, newWorkflowId } from '../../base/ids.ts';
import { defaultRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import type { Database } from '../pg/database.ts';
import { createPruner } from '../retention/prune.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type Fleet, testFleet } from './fleet.ts';

export const daySeconds = 24 * 3600;

/** A machine and its allocation, from the request to the retirement. */
export interface Life {
  node: NodeRow;
  allocation: AllocationRow;
  workflow_id: string;
  task_id: string;
}

export async function retentionFixture(db: Database) {
  const fleet: Fleet = await testFleet(db);

  /** The test clock, with a later time for each id. */
  const ids = () => ({ ...fleet.clock, nowMs: () => fleet.now().getTime() });
  const passDays = (days: number) => fleet.clock.advance(days * daySeconds * 1000);
  const later = (seconds: number) => secondsLater(fleet.now(), seconds);

  /** Runs passes until one deletes nothing, with new cursors, as a server that has just started. */
  async function pruneAll(): Promise<number> {
    const pruner = createPruner(db);
    let total = 0;
    for (let isAtEnd = false; !isAtEnd; ) {
      const { deleted, more } = await pruner.pass(defaultRetentionSeconds, fleet.now());
      total += deleted;
      isAtEnd = deleted === 0 && !more;
    }
    return total;
  }

  async function exists(table: string, key: string, id: string | null): Promise<boolean> {
    return (await db.query(`select 1 from ${table} where ${key} = $1`, [id])).length > 0;
  }

  async function insertOperation(
    about: { node_id?: string | null; allocation_id?: string | null; status?: string } = {},
  ): Promise<string> {
    const id = newWorkflowId(ids());
    const { status = 'succeeded', node_id = null, allocation_id = null } = about;
    await db.query(
      `insert into operations (
         workflow_id, kind, revision, status, node_id, allocation_id, correlation_id,
         created_at, finished_at)
       values (
         $1, 'test', 1, $2, $3, $4, 'c',
         $5::timestamptz, case when $2 = 'running' then null else $5::timestamptz end)`,
      [id, status, node_id, allocation_id, fleet.now()],
    );
    await db.query(`insert into steps (workflow_id, ordinal, name, label, status) values ($1, 1, 's', 's', 'done')`, [
      id,
    ]);
    await db.query(`insert into step_receipts (workflow_id, receipt, at) values ($1, 'r', now())`, [id]);
    return id;
  }

  async function insertTask(node: NodeRow, more: { status?: string; workflow_id?: string } = {}): Promise<string> {
    const id = newTaskId(ids());
    const { status = 'succeeded', workflow_id = null } = more;
    await db.query(
      `insert into tasks (
         task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, workflow_id,
         created_at, finished_at)
       values (
         $1, $2, $3, 'ping', '{}', $4, 30, $5::timestamptz, $6,
         $5::timestamptz, case when $4 = 'succeeded' then $5::timestamptz end)`,
      [id, node.node_id, node.node_instance_id, status, fleet.now(), workflow_id],
    );
    return id;
  }

  async function insertLog(node: NodeRow, instance = node.node_instance_id): Promise<void> {
    await db.query(
      `insert into node_log_ends (node_instance_id, node_id, last_seq, bytes)
       values ($1, $2, 9, 1000)
       on conflict do nothing`,
      [instance, node.node_id],
    );
    await db.query(
      `insert into node_log_chunks (
         node_instance_id, last_seq, node_id, first_seq, last_at, lines, raw_bytes, packing, content)
       values ($1, 9, $2, 1, $3, 9, 9, 'none', 'x')`,
      [instance, node.node_id, fleet.now()],
    );
  }

  async function insertResidue(about: {
    node?: NodeRow;
    allocation_id?: string;
    workflow_id?: string;
    status: string;
  }) {
    const id = newResidueId(ids());
    const { node, allocation_id = null, workflow_id = null, status } = about;
    await db.query(
      `insert into residue (
         residue_id, driver, kind, resource, node_id, node_instance_id, allocation_id, workflow_id, why,
         reason, status, since, settled_at)
       values (
         $1, 'local', 'process', $1, $2, $3, $4, $5, 'orphan',
         'test', $6, $7::timestamptz, case when $6 <> 'open' then $7::timestamptz end)`,
      [id, node?.node_id ?? null, node?.node_instance_id ?? null, allocation_id, workflow_id, status, fleet.now()],
    );
    return id;
  }

  /** Adds an earlier, fenced instance of a node. */
  async function addEarlierInstance(node: NodeRow, set: Record<string, unknown> = {}): Promise<string> {
    const id = newNodeInstanceId(ids());
    const columns = { fenced_at: fleet.now(), ...set };
    await db.query(
      `insert into instances (node_instance_id, node_id, attempt, created_at, ${Object.keys(columns).join(', ')})
       select $1, $2, 1 + max(attempt), $3, ${Object.keys(columns).map((_, i) => `$${i + 4}`)}
       from instances
       where node_id = $2`,
      [id, node.node_id, fleet.now(), ...Object.values(columns)],
    );
    return id;
  }

  const fence = (node: NodeRow) =>
    db.query('update instances set fenced_at = $2 where node_instance_id = $1', [node.node_instance_id, fleet.now()]);

  async function createLife(): Promise<Life> {
    const node = await fleet.node('retired');
    const allocation = await fleet.allocation('released', node);
    await fence(node);
    const { node_id, node_instance_id } = node;
    const workflow_id = await insertOperation({ node_id, allocation_id: allocation.allocation_id });
    await db.query(
      `insert into recovery_targets (workflow_id, ordinal, allocation_id, node_id, state)
       values ($1, 1, $2, $3, 'recovered')`,
      [workflow_id, allocation.allocation_id, node_id],
    );
    await db.query(
      `insert into boot_stages (node_instance_id, ordinal, name, seconds, reported_at)
       values ($1, 1, 'init', 1, $2)`,
      [node_instance_id, fleet.now()],
    );
    await db.query(`insert into boot_signs (node_instance_id, seen_at, kind, code) values ($1, $2, 'part', 'init')`, [
      node_instance_id,
      fleet.now(),
    ]);
    await db.query(
      `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds)
       values ($1, $2, 10, 30)`,
      [node_instance_id, fleet.now()],
    );
    await db.query('insert into probes (node_instance_id, tried_at) values ($1, $2)', [node_instance_id, fleet.now()]);
    await db.query(
      `insert into boot_samples (
         node_instance_id, phase, node_id, pool, pool_generation, started_at, seconds, outcome, at)
       values ($1, 'start', $2, 'test', 1, $3, 1, 'completed', $3)`,
      [node_instance_id, node_id, fleet.now()],
    );
    await insertLog(node);
    return { node, allocation, workflow_id, task_id: await insertTask(node) };
  }

  /** Lists the tables that have a row of this life, apart from evidence. */
  async function findRemains({ node, allocation, workflow_id }: Life): Promise<string[]> {
    const keys = {
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      allocation_id: allocation.allocation_id,
      workflow_id,
    };
    const found = new Set<string>();
    for (const [key, id] of Object.entries(keys)) {
      const tables = await db.query<{ name: string }>(
        `select cls.relname as name
         from pg_class cls
         join pg_attribute att on att.attrelid = cls.oid
         where relnamespace = 'public'::regnamespace
           and relkind = 'r'
           and not relispartition
           and attname = $1`,
        [key],
      );
      for (const { name } of tables) if (await exists(name, key, id)) found.add(name);
    }
    return [...found].sort();
  }

  const readPrunedFacts = (key: string, id: string) =>
    db.query<{ kind: string; data: Record<string, unknown> }>(
      `select kind, data
       from evidence
       where ${key} = $1
         and kind like '%.pruned'`,
      [id],
    );

  return {
    fleet,
    passDays,
    later,
    pruneAll,
    exists,
    insertOperation,
    insertTask,
    insertLog,
    insertResidue,
    addEarlierInstance,
    fence,
    createLife,
    findRemains,
    readPrunedFacts,
  };
}
