/**
 * Creates the databases of tests. Cloning the migrated template (run/template.ts) takes tens of
 * milliseconds.
 */
import { randomBytes } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { Client } from 'pg';
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string;
    applicationUrl: string;
    /**
     * The STRATEGY clause for cloning the template. Empty on PostgreSQL 14, which has only one
     * strategy.
     */
    cloneStrategy: string;
  }
}

export interface TestDatabase {
  /** Connects as the owner, who may do anything. */
  url: string;
  /** Connects as the role that the server's statements run as. */
  application_url: string;
  drop(): Promise<void>;
}

export const template = 'slipway_template';

/**
 * A test file that has dropped root may not enter the directory of PostgreSQL's socket. It then
 * connects over TCP.
 */
const canEnter = (directory: string): boolean => {
  try {
    accessSync(directory, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

export function withDatabase(url: string, database: string): string {
  const address = new URL(url);
  address.pathname = `/${database}`;
  const directory = address.searchParams.get('host');
  if (directory && !canEnter(directory)) address.searchParams.delete('host');
  return address.href;
}

export async function execute(url: string, ...statements: string[]): Promise<void> {
  await withClient(withDatabase(url, 'postgres'), async (client) => {
    for (const statement of statements) await client.query(statement);
  });
}

/** Runs `work` on a connection of its own. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A database with all migrations applied, those of the engine included, and no rows. */
export const testDatabase = (): Promise<TestDatabase> =>
  // A clone has a thousand files. The file_copy strategy takes half the CPU time of the default,
  // which writes each page to the WAL.
  newDatabase(` TEMPLATE ${template} ${inject('cloneStrategy')}`);

/** A database with nothing in it, for tests of the migrations and of the engine's first launch. */
export const emptyDatabase = (): Promise<TestDatabase> => newDatabase('');

async function newDatabase(from: string): Promise<TestDatabase> {
  const server = inject('postgresUrl');
  const name = `test_${randomBytes(8).toString('hex')}`;
  await execute(server, `CREATE DATABASE ${name}${from}`);
  return {
    url: withDatabase(server, name),
    application_url: withDatabase(inject('applicationUrl'), name),
    // FORCE, because half-open connections of a killed process would block the drop.
    drop: () => execute(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}
