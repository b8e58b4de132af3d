/**
 * Shared by the flood attacks: their machines and tenants, and how much evidence a server holds.
 */
import { fileURLToPath } from 'node:url';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { SourceEdit } from './attack.ts';

export const tightLimits = ['--config', fileURLToPath(new URL('./tight-limits.yaml', import.meta.url))];

export interface Stored {
  rows: number;
  bytes: number;
}

/** Of all evidence, or of the rows that `where` selects. */
export async function evidenceOf(
  { database_url }: SpawnedServer,
  where = 'true',
  values: unknown[] = [],
): Promise<Stored> {
  const db = openDatabase({ url: database_url, max_connections: 1 });
  try {
    const [stored] = await db.query<Stored>(
      `select count(*)::int as rows, coalesce(sum(octet_length(evidence::text)), 0)::int as bytes
       from evidence
       where ${where}`,
      values,
    );
    return stored ?? { rows: 0, bytes: 0 };
  } finally {
    await db.close();
  }
}

export const evidenceOfMachine = (server: SpawnedServer, { node_id }: Machine): Promise<Stored> =>
  evidenceOf(server, 'node_id = $1', [node_id]);

export async function createJoinToken({ client }: SpawnedServer, pool: string): Promise<string> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  return (await client.call('join-token-create', { params: { pool } })).token ?? '';
}

export async function machineIn(server: SpawnedServer, pool: string): Promise<Machine> {
  const machine = await startMachine(server.url, { join_token: await createJoinToken(server, pool), name: 'flooder' });
  await machine.beat('ready');
  return machine;
}

export async function createTenantToken({ client }: SpawnedServer, tenant: string): Promise<string> {
  const reply = await client.call('token-create', { body: { name: tenant, role: 'operator', tenant } });
  return reply.token ?? '';
}

/** Makes the calls one after the other and returns how many were refused with 429. */
export async function countRefused(
  times: number,
  call: (index: number) => Promise<{ status: number }>,
): Promise<number> {
  let refused = 0;
  for (let index = 0; index < times; index++) if ((await call(index)).status === 429) refused++;
  return refused;
}

/**
 * Requests are still refused once their writer is over its limit, but reserve nothing while they
 * are in progress.
 */
export const withoutReservation: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/outside-writes.ts',
    find: 'for (const { key, quota } of draws) accounts.reserve(key, quota, rows, withOverhead);',
    replace: '',
  },
];
