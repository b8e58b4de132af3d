/**
 * Creates the machines and tenants of the flood attacks, and measures how much evidence a server
 * holds.
 */
import { fileURLToPath } from 'node:url';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { SourceEdit } from './attack.ts';

export const tightLimits = ['--config', fileURLToPath(new URL('./tight-limits.yaml', import.meta.url))];

export interface StoredEvidence {
  rows: number;
  bytes: number;
}

/** Counts the rows and bytes of all evidence, or of the rows that `where` selects. */
export async function countEvidence(
  { database_url }: SpawnedServer,
  where = 'true',
  values: unknown[] = [],
): Promise<StoredEvidence> {
  const db = openDatabase({ url: database_url, max_connections: 1 });
  try {
    const [stored] = await db.query<StoredEvidence>(
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

export const countEvidenceOfMachine = (server: SpawnedServer, { node_id }: Machine): Promise<StoredEvidence> =>
  countEvidence(server, 'node_id = $1', [node_id]);

/** Returns a join token of the new pool. */
export async function createPoolWithToken({ client }: SpawnedServer, pool: string): Promise<string> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  return (await client.call('join-token-create', { params: { pool } })).token ?? '';
}

export async function startMachineInNewPool(server: SpawnedServer, pool: string): Promise<Machine> {
  const machine = await startMachine(server.url, {
    join_token: await createPoolWithToken(server, pool),
    name: 'flooder',
  });
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
  let refusedCount = 0;
  for (let index = 0; index < times; index++) if ((await call(index)).status === 429) refusedCount++;
  return refusedCount;
}

/**
 * The defence that reserves quota before a write. Without it, a write counts only once it is
 * stored, so every request that arrives before then is admitted.
 */
export const writeReservation: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/write-limits.ts',
    find: 'for (const { key, quota } of ownAccounts) accounts.reserve(key, quota, rows, withOverhead);',
    replace: '',
  },
];
