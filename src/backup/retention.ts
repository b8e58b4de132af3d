/** The backups of one installation in a storage, and which of them stay. */
import { type BackupStorage, isBackupOf } from './storage/storage.ts';

/** Oldest first. */
export const listBackupsOf = async (storage: BackupStorage, installation_id: string | null): Promise<string[]> =>
  (await storage.list()).filter((name) => isBackupOf(name, installation_id));

/**
 * Deletes all but `keep` backups of the installation: the one just taken, and the newest others.
 * Returns the deleted ones.
 */
export async function pruneBackups(
  storage: BackupStorage,
  taken: string,
  { installation_id, keep }: { installation_id: string | null; keep: number },
): Promise<string[]> {
  // If the clock went back, the one just taken is not the last one.
  const others = (await listBackupsOf(storage, installation_id)).filter((name) => name !== taken);
  const old = others.slice(0, Math.max(0, others.length - keep + 1));
  for (const name of old) await storage.remove(name);
  return old.map(storage.pathOf);
}
