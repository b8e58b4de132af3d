/** Explains why a command failed: the failure, its reason, and the remedy. */
import { SettingsError } from '../base/settings/flag-values.ts';
import { explanationOf } from '../operations/runtime/start-failure.ts';
import { BackupRefused } from '../store/backup/refusal.ts';
import { EmbeddedPostgresError } from '../store/pg/embedded/embedded-error.ts';
import { StorageError } from './storage/storage.ts';

export interface Failure {
  code: string;
  title: string;
  detail: string | null;
  remedy: string | null;
}

export function describeFailure(error: unknown): Failure {
  if (error instanceof BackupRefused)
    return { code: error.code, title: error.message, detail: error.why, remedy: error.remedy };
  if (error instanceof StorageError)
    return { code: error.code, title: error.title, detail: error.why, remedy: error.remedy };
  if (error instanceof EmbeddedPostgresError)
    return { code: error.code, title: error.message, detail: null, remedy: error.remedy };
  if (error instanceof SettingsError)
    return { code: 'usage', title: error.message, detail: null, remedy: 'Run the command with --help for its flags.' };
  if (error instanceof Error && 'path' in error && 'code' in error)
    return {
      code: 'failed',
      title: `${error.path} cannot be used`,
      detail: error.message,
      remedy: 'Check that its directory exists, the rights of this user, and the free space.',
    };
  const explanation = explanationOf(error);
  if (explanation)
    return {
      code: 'failed',
      title: explanation.what,
      detail: explanation.why ?? null,
      remedy: 'Check the database that the command names, and the rights of this user.',
    };
  return {
    code: 'defect',
    title: 'Internal error',
    detail: error instanceof Error ? (error.stack ?? error.message) : String(error),
    remedy: null,
  };
}
