/**
 * Creates a pool for one attack. Returns a join token, and the pool's name as the name of the
 * machine.
 */
import type { TestServer } from '../../support/server.ts';

export async function createPoolToJoin(
  { client }: TestServer,
  pool: string,
): Promise<{ join_token: string; name: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  return { join_token, name: pool };
}
