/** Tests whether the database takes writes, without adding a row. */
import type { ReplicaId } from '../../base/ids.ts';
import { type Database, isOverLimit } from '../pg/database.ts';

/**
 * Half a megabyte in temporary files: unlike a changed row, they always need new space on the disk,
 * and nothing of them remains.
 */
const spillSql = `
  select count(*)
  from (select md5(n::text) as word from generate_series(1, 12000) as n order by word) as sorted`;

/**
 * Rewrites the replica's own row, which is small and often rewritten. The commit waits for
 * synchronous standbys like every other commit. `onBegin` is called once a connection is free.
 */
export async function testWrite(db: Database, replica_id: ReplicaId, onBegin: () => void): Promise<void> {
  const write = (withFiles: boolean) =>
    db.transaction(async (tx) => {
      onBegin();
      if (withFiles) {
        await tx.query(`set local work_mem = '64kB'`);
        await tx.query(spillSql);
      }
      await tx.query('update replicas set address = address where replica_id = $1', [replica_id]);
    });
  try {
    await write(true);
  } catch (error) {
    // `temp_file_limit` forbids temporary files, but rows may still be writable.
    if (!isOverLimit(error)) throw error;
    await write(false);
  }
}
