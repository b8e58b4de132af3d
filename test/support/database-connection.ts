/**
 * A test's own connection to the server's database, and checks that no work, process or directory
 * is left.
 */
import { existsSync, readdirSync } from 'node:fs';
import pg from 'pg';
import { expect } from 'vitest';
import { findTaggedProcesses } from './tagged-processes.ts';
import { until } from './until.ts';

export interface DatabaseConnection {
  query<R extends object>(text: string, values?: unknown[]): Promise<R[]>;
  countRows(text: string, values?: unknown[]): Promise<number>;
  /** Counts the evidence rows of one kind about an allocation. */
  countEvidence(allocation_id: string, kind: string): Promise<number>;
  installation_id: string;
  client: pg.Client;
  close(): Promise<void>;
}

export async function openDatabaseConnection(database_url: string): Promise<DatabaseConnection> {
  const client = new pg.Client(database_url);
  await client.connect();
  const query = async <R extends object>(text: string, values: unknown[] = []) =>
    (await client.query(text, values)).rows as R[];
  const countRows = async (text: string, values: unknown[] = []) => (await query(text, values)).length;
  const [installation] = await query<{ installation_id: string }>('select installation_id from installation');
  return {
    query,
    countRows,
    countEvidence: (allocation_id, kind) =>
      countRows('select 1 from evidence where allocation_id = $1 and kind = $2', [allocation_id, kind]),
    installation_id: installation?.installation_id ?? '',
    client,
    close: () => client.end(),
  };
}

/** Selects the engine's workflows that have not ended. */
export const unfinishedWorkflows = `select workflow_uuid, status from dbos.workflow_status where status in ('PENDING', 'ENQUEUED', 'DELAYED')`;

const unfinishedWork = {
  operations: `select kind, status from operations where status in ('queued', 'running', 'cancelling')`,
  workflows: unfinishedWorkflows,
  tasks: `select type, status from tasks where status in ('queued', 'leased')`,
  allocations: `select allocation_id, status from allocations where status not in ('released', 'failed')`,
  nodes: `select node_id, status from nodes where status <> 'retired'`,
};

export const readUnfinishedOperations = (db: DatabaseConnection) =>
  db.query<{ kind: string; status: string }>(unfinishedWork.operations);

/**
 * A machine may serve before its operation has ended. After a replica died, another one must first
 * resume its operations.
 */
export async function waitForOperations(db: DatabaseConnection): Promise<void> {
  await until('all operations to end', async () => (await readUnfinishedOperations(db)).length === 0, { seconds: 60 });
}

/**
 * Checks that everything was released: no unfinished row, process or directory is left, and only
 * running replicas hold a lease.
 */
export async function expectNothingLeft(db: DatabaseConnection, nodes_dir: string, replicas: number): Promise<void> {
  // An operation ends a moment after the status that it brings about is written.
  await waitForOperations(db);
  await until(
    'the engine to record that all workflows ended',
    async () => (await db.countRows(unfinishedWork.workflows)) === 0,
    { seconds: 60 },
  );
  for (const [what, text] of Object.entries(unfinishedWork))
    expect(await db.query(text), `unfinished ${what}`).toEqual([]);
  expect(findTaggedProcesses(db.installation_id), 'processes').toEqual([]);
  expect(existsSync(nodes_dir) ? readdirSync(nodes_dir) : [], 'directories').toEqual([]);
  // A replica that has just started or ended is recorded a moment later.
  await until(
    `${replicas} replicas to hold a lease`,
    async () => (await db.countRows('select 1 from replicas where ended_at is null')) === replicas,
    { seconds: 60 },
  );
}
