/** A pool of an attack's own, and what a machine needs to join it. */
import type { TestServer } from '../../support/server.ts';

export async function poolToJoin({ client }: TestServer, pool: string): Promise<{ join_token: string; name: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  return { join_token, name: pool };
}
