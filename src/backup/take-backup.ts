/** Takes a backup: records of the database, compressed, encrypted, into a file or a bucket. */
import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { systemClock } from '../base/clock.ts';
import type { KeyRing } from '../base/credentials/key-ring.ts';
import { packageVersion } from '../base/files/package-root.ts';
import { randomHex } from '../base/random-hex.ts';
import { dbosSchema } from '../engine/dbos-schema.ts';
import type { WaitLimits } from '../store/backup/open-client.ts';
import { readDatabase } from '../store/backup/read-database.ts';
import type { BackupRecord, End } from '../store/backup/records.ts';
import { encodeRecords } from '../store/backup/records.ts';
import { type NewHeader, sealFile } from '../store/backup/sealed-file.ts';
import { pruneBackups } from './retention.ts';
import { openPlace } from './storage/open-place.ts';
import { backupName, isBackupOf } from './storage/storage.ts';

export interface TakenBackup {
  backup_id: string;
  file: string;
  taken_at: string;
  bytes: number;
  tables: number;
  rows: number;
  /** The id of the key that opens the backup. */
  kid: string;
  /** Old backups, and what killed backups left behind. */
  deleted: string[];
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((a, b) => a + b, 0);

/** An error of the source reaches the reader of the result. */
function compress(bytes: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  return pipeline(Readable.from(bytes), createGzip(), () => {});
}

export interface TakeBackupOptions {
  url: string;
  /** A new file or a directory, or a new object or a prefix in a bucket. */
  to: string;
  /** Null for AWS. */
  s3_endpoint?: string | null;
  /** How many backups stay there. Null for all. */
  keep: number | null;
  key_ring: KeyRing;
  /** Aborts the backup; no file remains. */
  signal?: AbortSignal;
  limits?: WaitLimits;
}

export async function takeBackup(options: TakeBackupOptions): Promise<TakenBackup> {
  const { url, to, s3_endpoint = null, keep, key_ring, signal, limits } = options;
  const { storage, name: givenName } = await openPlace(to, s3_endpoint);
  const snapshot = await readDatabase(url, dbosSchema, limits);
  // Closing the connection makes the running statement fail.
  const stop = () => void snapshot.close();
  signal?.addEventListener('abort', stop);
  try {
    signal?.throwIfAborted();
    const { facts } = snapshot;
    const key = key_ring.current;
    const header: NewHeader = { backup_id: `backup_${randomHex(12)}`, slipway_version: packageVersion(), ...facts };
    let end: End | undefined;
    async function* watchEnd(): AsyncGenerator<BackupRecord> {
      for await (const record of snapshot.records()) {
        if (record.kind === 'end') end = record;
        yield record;
      }
    }
    const name = givenName ?? backupName(facts);
    const { installation_id } = facts;
    const isOurs = (other: string) => other === name || isBackupOf(other, installation_id);
    const abandoned = await storage.removeAbandoned(isOurs, systemClock.nowMs());
    const sealed = sealFile(compress(encodeRecords(watchEnd())), { header, key });
    const bytes = await storage.write(name, sealed, signal);
    const tables = end?.tables ?? {};
    const deleted = keep === null ? [] : await pruneBackups(storage, name, { installation_id, keep });
    return {
      backup_id: header.backup_id,
      file: storage.pathOf(name),
      taken_at: facts.taken_at,
      bytes,
      tables: Object.keys(tables).length,
      rows: sum(tables),
      kid: key.kid,
      deleted: [...abandoned, ...deleted],
    };
  } finally {
    signal?.removeEventListener('abort', stop);
    await snapshot.close();
  }
}
