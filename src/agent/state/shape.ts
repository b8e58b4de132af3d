/** Small type guards for parsed JSON. The agent ships as one file without a schema library. */

export type Fields = Record<string, unknown>;

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

export const numberOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;

export const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

export const isTextRecord = (value: unknown): value is Record<string, string> =>
  isFields(value) && Object.values(value).every((item) => typeof item === 'string');

/** The code of an operating system or TLS error, if it has one. */
export function errorCode(error: unknown): string | null {
  return isFields(error) ? textOf(error.code) : null;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
