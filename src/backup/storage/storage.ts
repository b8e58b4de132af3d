/** The port of a storage for backups: a directory, or a prefix in a bucket. */
import { BackupRefused } from '../../store/backup/refusal.ts';

export interface BackupStorage {
  /** The names of all backups here, sorted. */
  list(): Promise<string[]>;
  read(name: string): AsyncIterable<Buffer>;
  /**
   * Returns how many bytes were written. The backup appears only when it is whole, and never
   * replaces another.
   */
  write(name: string, chunks: AsyncIterable<Buffer>, signal?: AbortSignal): Promise<number>;
  remove(name: string): Promise<void>;
  /**
   * Deletes what killed backups left behind, if `isOurs` accepts the name of the backup. Returns
   * what it deleted, for people. A failure stops no backup.
   */
  removeAbandoned(isOurs: (name: string) => boolean, nowMs: number): Promise<string[]>;
  /** Returns the whole path or URL of a backup, as the commands accept it. */
  pathOf(name: string): string;
}

const suffix = '.slipway-backup';

export const isBackupName = (name: string): boolean => name.endsWith(suffix);

/** The names of one installation's backups sort by time. */
export const backupName = ({
  installation_id,
  taken_at,
}: {
  installation_id: string | null;
  taken_at: string;
}): string => `${installation_id ?? 'slipway'}-${taken_at.replaceAll(/[:.]/g, '-')}${suffix}`;

export const isBackupOf = (name: string, installation_id: string | null): boolean =>
  name.startsWith(`${installation_id ?? 'slipway'}-2`) && isBackupName(name);

export const existsError = (path: string): BackupRefused =>
  new BackupRefused('file_exists', `${path} exists already`, {
    why: 'A backup never replaces a file.',
    remedy: 'Name another file or a directory with --to.',
  });

/** The storage failed, or refused the request. */
export class StorageError extends Error {
  override name = 'StorageError';
  readonly code: string;
  readonly title: string;
  readonly why: string;
  readonly remedy: string;
  constructor(code: string, title: string, { why, remedy }: { why: string; remedy: string }) {
    super(`${title}: ${why}`);
    this.code = code;
    this.title = title;
    this.why = why;
    this.remedy = remedy;
  }
}
