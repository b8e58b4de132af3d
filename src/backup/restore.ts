/** Restores a backup into an empty database, and moves a database without an intermediate file. */
import { packageVersion } from '../base/files/package-root.ts';
import { dbosSchema } from '../engine/dbos-schema.ts';
import { loadDatabase, refuseNewerSchema } from '../store/backup/load-database.ts';
import { readDatabase } from '../store/backup/read-database.ts';
import { beginRestorationOfBackup } from '../store/backup/restorations.ts';
import { beginEraIfRestored, hasEras } from '../store/evidence/eras.ts';
import { openTarget } from './database-place.ts';
import type { DatabasePlace } from './options.ts';
import { type KeyFile, openBackup, type VerifiedBackup, verifyBackup } from './read-backup.ts';

export interface RestoreOptions {
  file: string;
  /** Null for AWS. */
  s3_endpoint?: string | null;
  into: DatabasePlace;
  keys: KeyFile;
  log(line: string): void;
}

/** Reads the file twice, so that a damaged one changes nothing. */
export async function restoreBackup({
  file,
  s3_endpoint = null,
  into,
  keys,
  log,
}: RestoreOptions): Promise<VerifiedBackup> {
  const verified = await verifyBackup(file, keys, s3_endpoint);
  const { header } = verified;
  await refuseNewerSchema(header, dbosSchema);
  const target = await openTarget(into, log);
  try {
    const backup = await openBackup(file, keys, s3_endpoint);
    try {
      await loadDatabase({
        url: target.url,
        backup: header,
        engine: dbosSchema,
        records: backup.records,
        beforeCommit: beginRestorationOfBackup,
      });
      return verified;
    } finally {
      await backup.close();
    }
  } finally {
    await target.close();
  }
}

/** Begins the era of the new cluster here, because a server would take the move for a restore. */
export async function moveDatabase(from_url: string, to_url: string): Promise<Record<string, number>> {
  const snapshot = await readDatabase(from_url, dbosSchema);
  try {
    const backup = { ...snapshot.facts, slipway_version: packageVersion() };
    await refuseNewerSchema(backup, dbosSchema);
    return await loadDatabase({
      url: to_url,
      backup,
      engine: dbosSchema,
      records: snapshot.records,
      beforeCommit: async (client) => {
        // An earlier schema has no eras. The start that migrates the schema checks for a restore.
        if (await hasEras(client)) await beginEraIfRestored(client);
      },
    });
  } finally {
    await snapshot.close();
  }
}
