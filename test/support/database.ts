/** A database of its own for every test file: a clone of the migrated template (template.ts), which takes tens of milliseconds. */
import { randomBytes } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { Client } from 'pg';
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string;
    applicationUrl: string;
    /** How a database is cloned from the template; PostgreSQL 14 knows one way only. */
    cloneStrategy: string;
  }
}

export interface TestDatabase {
  /** Of the owner, who may do anything. */
  url: string;
  /** Of the role that a server's statements run as. */
  application_url: string;
  drop(): Promise<void>;
}

export const template = 'slipway_template';

/** A file that became a plain user may not enter where the socket lies, and goes through the network. */
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
  const client = new Client({ connectionString: withDatabase(url, 'postgres') });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** With all migrations applied, the engine's too, and nothing in it. */
export const testDatabase = (): Promise<TestDatabase> =>
  // A clone has a thousand files. To copy them takes the processors half of what it takes to write each page to the log.
  newDatabase(` TEMPLATE ${template} ${inject('cloneStrategy')}`);

/** With nothing at all in it, for tests of the migrations themselves and of the engine's first launch. */
export const emptyDatabase = (): Promise<TestDatabase> => newDatabase('');

async function newDatabase(from: string): Promise<TestDatabase> {
  const server = inject('postgresUrl');
  const name = `test_${randomBytes(8).toString('hex')}`;
  await execute(server, `CREATE DATABASE ${name}${from}`);
  return {
    url: withDatabase(server, name),
    application_url: withDatabase(inject('applicationUrl'), name),
    // Connections that a killed process left half-open must not keep the database.
    drop: () => execute(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}
