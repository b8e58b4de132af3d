/** Why a backup, a database or a file was refused. No rows were loaded. */
export type BackupRefusalCode =
  | 'not_a_backup'
  | 'format_newer'
  | 'key_missing'
  | 'backup_damaged'
  | 'backup_truncated'
  | 'schema_newer'
  | 'schema_changed'
  | 'database_missing'
  | 'database_not_empty'
  | 'database_newer'
  | 'database_in_use'
  | 'file_exists';

export class BackupRefused extends Error {
  override name = 'BackupRefused';
  readonly code: BackupRefusalCode;
  readonly why: string;
  readonly remedy: string;
  constructor(code: BackupRefusalCode, title: string, { why, remedy }: { why: string; remedy: string }) {
    super(title);
    this.code = code;
    this.why = why;
    this.remedy = remedy;
  }
}

const otherBackupRemedy = 'Use another backup, or copy this one again from where it was stored.';

export const truncatedError = (): BackupRefused =>
  new BackupRefused('backup_truncated', 'The backup is not whole', {
    why: 'The file ends before its last chunk.',
    remedy: otherBackupRemedy,
  });

export const inUseError = (why: string, remedy: string): BackupRefused =>
  new BackupRefused('database_in_use', 'The database is in use', { why, remedy });

export const damagedError = (why: string): BackupRefused =>
  new BackupRefused('backup_damaged', 'The backup is damaged', { why, remedy: otherBackupRemedy });
