/** Creates a pool for one attack, and the join token of a machine. */
import type { TestServer } from '../../support/server.ts';

export async function poolToJoin({ client }: TestServer, pool: string): Promise<{ join_token: string; name: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  return { join_token, name: pool };
}
