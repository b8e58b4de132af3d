/** Errors of the embedded PostgreSQL. Each has a remedy that a person can apply. */
export type EmbeddedPostgresCode =
  | 'platform_unsupported'
  | 'data_directory_unwritable'
  | 'data_directory_foreign'
  | 'data_directory_closed'
  | 'data_directory_copied'
  | 'data_directory_moved'
  | 'data_directory_unusable'
  | 'data_directory_owned'
  | 'no_unprivileged_account'
  | 'relocation_failed'
  | 'initialisation_failed'
  | 'start_failed'
  | 'stop_failed';

export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
  readonly code: EmbeddedPostgresCode;
  readonly remedy: string;

  constructor(code: EmbeddedPostgresCode, message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
  }
}

const systemCode = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** Whether the operating system or PostgreSQL failed with one of these codes. */
export const hasErrorCode = (error: unknown, ...codes: string[]): boolean => codes.includes(systemCode(error) ?? '');
