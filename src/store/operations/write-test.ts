/** Tests whether the database takes writes, without adding a row. */
import type { ReplicaId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';

/**
 * Half a megabyte in temporary files: unlike a changed row, they always need new space on the disk,
 * and nothing of them remains.
 */
const needsSpace = `
  select count(*)
  from (select md5(n::text) as word from generate_series(1, 12000) as n order by word) as sorted`;

/**
 * Rewrites the replica's own row, which is small and often rewritten. The commit waits for
 * synchronous standbys like every other commit.
 */
export async function testWrite(db: Database, replica_id: ReplicaId): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query(`set local work_mem = '64kB'`);
    await tx.query(needsSpace);
    await tx.query('update replicas set address = address where replica_id = $1', [replica_id]);
  });
}
