/** Reads, decrypts and decompresses a backup. A backup that can be read to its end is whole. */
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { moment } from '../base/clock.ts';
import { type RingKey, readKeyFile } from '../base/credentials/key-ring.ts';
import { SettingsError } from '../base/settings/flag-values.ts';
import { type BackupRecord, decodeRecords } from '../store/backup/records.ts';
import { damagedError } from '../store/backup/refusal.ts';
import { type BackupHeader, openFile } from '../store/backup/sealed-file.ts';
import { listBackupsOf } from './retention.ts';
import { openNamedPlace, openStorage } from './storage/open-place.ts';

export interface KeyFile {
  path: string;
  all: readonly RingKey[];
}

/** A missing key file is not created, because a new key opens nothing. */
export function openKeyFile(path: string): KeyFile {
  try {
    return { path, all: readKeyFile(path) };
  } catch (error) {
    if (error instanceof SettingsError) throw error;
    throw new SettingsError(
      `the key file cannot be read: ${error instanceof Error ? error.message : error}. With --key-file, name the key file of the server that made the backup.`,
    );
  }
}

export interface OpenBackup {
  header: BackupHeader;
  records(): AsyncGenerator<BackupRecord>;
  close(): Promise<void>;
}

/** `s3_endpoint` is null for AWS. */
export async function openBackup(path: string, keys: KeyFile, s3_endpoint: string | null = null): Promise<OpenBackup> {
  const { storage, name } = await openNamedPlace(path, s3_endpoint);
  const { header, content, close } = await openFile(storage.read(name));
  return {
    header,
    close,
    async *records() {
      const plain: AsyncIterable<Buffer> = pipeline(Readable.from(content(keys)), createGunzip(), () => {});
      try {
        yield* decodeRecords(plain);
      } catch (error) {
        if (error instanceof Error && 'code' in error && String(error.code).startsWith('Z_'))
          throw damagedError('Its content cannot be decompressed.');
        throw error;
      } finally {
        await close();
      }
    },
  };
}

/** The clocks of the server and of its database may differ by this much. */
const maxAheadMs = 3_600_000;

/**
 * When the newest backup of the installation was taken. Undefined if none can be read. Ignores
 * backups dated in the future: a clock that was wrong once must not stop backups until then.
 */
export async function readNewestBackup(
  { to, s3_endpoint }: { to: string; s3_endpoint: string | null },
  { installation_id, nowMs }: { installation_id: string; nowMs: number },
): Promise<Date | undefined> {
  const storage = await openStorage(to, s3_endpoint);
  for (const name of (await listBackupsOf(storage, installation_id)).toReversed()) {
    try {
      const { header, close } = await openFile(storage.read(name));
      await close();
      const takenMs = Date.parse(header.taken_at);
      if (takenMs <= nowMs + maxAheadMs) return moment(takenMs);
    } catch {
      // The file is damaged, belongs to another account, or was deleted meanwhile. That must not
      // stop the next backup.
    }
  }
  return undefined;
}

export interface VerifiedBackup {
  header: BackupHeader;
  /** The rows of each table. */
  tables: Record<string, number>;
  rows: number;
}

/** Reads the whole file, and writes nothing. */
export async function verifyBackup(
  path: string,
  keys: KeyFile,
  s3_endpoint: string | null = null,
): Promise<VerifiedBackup> {
  const { header, records } = await openBackup(path, keys, s3_endpoint);
  let tables: Record<string, number> = {};
  for await (const record of records()) if (record.kind === 'end') ({ tables } = record);
  return { header, tables, rows: Object.values(tables).reduce((a, b) => a + b, 0) };
}
