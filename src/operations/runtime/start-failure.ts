/** Why a server did not start, as it is printed. */
import { SettingsError, serverUsage } from '../../base/settings/settings.ts';
import { OtherDatabase, SchemaTooNew } from '../../store/migrate.ts';
import { EmbeddedPostgresError } from '../../store/pg/embedded/embedded-error.ts';

/** What went wrong, and what to do about it; a stack trace only for what nobody foresaw. */
export function whyItDidNotStart(error: unknown): string {
  if (error instanceof SettingsError) return `${error.message}\n\n${serverUsage()}`;
  if (error instanceof EmbeddedPostgresError) return `${error.message}\n  ${error.remedy}`;
  if (error instanceof SchemaTooNew || error instanceof OtherDatabase) return error.message;
  if (!(error instanceof Error)) return `could not start: ${error}`;
  const code = 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return `${error.message}\n  Stop what listens there, or choose another --port.`;
  if (code === 'EACCES') return `${error.message}\n  Choose a --data-dir and a --port that this user may use.`;
  if (code === 'ECONNREFUSED') return `the database does not answer: ${error.message}\n  Check --database-url.`;
  return `could not start: ${error.stack ?? error.message}`;
}
