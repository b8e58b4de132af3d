/** A test's own view of the database and the host: recorded rows, open work, leftovers. */
import { existsSync, readdirSync } from 'node:fs';
import pg from 'pg';
import { expect } from 'vitest';
import { findTaggedProcesses } from './tagged-processes.ts';
import { until } from './until.ts';

export interface Ledger {
  rows<R extends object>(text: string, values?: unknown[]): Promise<R[]>;
  count(text: string, values?: unknown[]): Promise<number>;
  /** Counts the evidence rows of one kind about an allocation. */
  facts(allocation_id: string, kind: string): Promise<number>;
  installation_id: string;
  client: pg.Client;
  close(): Promise<void>;
}

export async function openLedger(database_url: string): Promise<Ledger> {
  const client = new pg.Client(database_url);
  await client.connect();
  const rows = async <R extends object>(text: string, values: unknown[] = []) =>
    (await client.query(text, values)).rows as R[];
  const count = async (text: string, values: unknown[] = []) => (await rows(text, values)).length;
  const [installation] = await rows<{ installation_id: string }>('select installation_id from installation');
  return {
    rows,
    count,
    facts: (allocation_id, kind) =>
      count('select 1 from evidence where allocation_id = $1 and kind = $2', [allocation_id, kind]),
    installation_id: installation?.installation_id ?? '',
    client,
    close: () => client.end(),
  };
}

export const openRuns = `select workflow_uuid, status from dbos.workflow_status where status in ('PENDING', 'ENQUEUED', 'DELAYED')`;

const open = {
  operations: `select kind, status from operations where status in ('queued', 'running', 'cancelling')`,
  runs: openRuns,
  tasks: `select type, status from tasks where status in ('queued', 'leased')`,
  allocations: `select allocation_id, status from allocations where status not in ('released', 'failed')`,
  nodes: `select node_id, status from nodes where status <> 'retired'`,
};

/**
 * A machine may serve before its operation has ended, and before a surviving replica resumes the
 * operation of a dead one.
 */
export const openOperations = (ledger: Ledger) => ledger.rows<{ kind: string; status: string }>(open.operations);

export async function waitForOperations(ledger: Ledger): Promise<void> {
  await until('all operations to end', async () => (await openOperations(ledger)).length === 0, { seconds: 60 });
}

/**
 * Checks that everything was released: no open row, no process, no directory, and a lease for each
 * living replica only.
 */
export async function expectNothingLeft(ledger: Ledger, nodes_dir: string, replicas: number): Promise<void> {
  // An operation ends a moment after its last status change.
  await waitForOperations(ledger);
  await until('the engine to have recorded it', async () => (await ledger.count(open.runs)) === 0, { seconds: 60 });
  for (const [what, text] of Object.entries(open)) expect(await ledger.rows(text), `open ${what}`).toEqual([]);
  expect(findTaggedProcesses(ledger.installation_id), 'processes').toEqual([]);
  expect(existsSync(nodes_dir) ? readdirSync(nodes_dir) : [], 'directories').toEqual([]);
  expect(await ledger.count('select 1 from replicas where ended_at is null'), 'replicas with a lease').toBe(replicas);
}
