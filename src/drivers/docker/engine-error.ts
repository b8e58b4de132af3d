/**
 * Classifies the errors of a container engine. Docker uses HTTP statuses; Podman's compatible API
 * reports some cases only as a 500 with a message.
 */
import { codeOf, statusOf, unansweredCodes } from '../upstream-error.ts';

/** The engine's own message, without the client's prefix. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const json = 'json' in error ? error.json : null;
  if (typeof json === 'object' && json !== null && 'message' in json && typeof json.message === 'string')
    return json.message;
  return withoutClientPrefix(error);
}

/**
 * For streaming requests dockerode does not parse the body, but prefixes the engine's message with
 * the status.
 */
function withoutClientPrefix(error: Error): string {
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : 'unexpected';
  const prefix = `(HTTP code ${statusOf(error)}) ${reason} - `;
  return error.message.startsWith(prefix) ? error.message.slice(prefix.length).trim() : error.message;
}

/** Matches an invalid image name, reported by the engine or by the registry. */
export const invalidNameMessage = /invalid reference|must be lowercase|name invalid/i;

const isServerErrorWith = (error: unknown, message: RegExp) =>
  statusOf(error) === 500 && message.test(messageOf(error));

/** Docker answers 400 to an invalid image name, Podman 500. */
export const isInvalidName = (error: unknown): boolean =>
  [400, 500].includes(statusOf(error) ?? 0) && invalidNameMessage.test(messageOf(error));

export const isMissing = (error: unknown): boolean => statusOf(error) === 404;

export const isConflict = (error: unknown): boolean =>
  statusOf(error) === 409 || isServerErrorWith(error, /already in use|removal of container .* is already in progress/i);

export const isNotRunning = (error: unknown): boolean =>
  statusOf(error) === 409 || isServerErrorWith(error, /container state improper|is not running/i);

const unreachableCodes = new Set<string>([...unansweredCodes, 'ENOENT']);
const busyStatuses = [429, 502, 503, 504];

/**
 * Whether another call unpacked the same files at the same time. Each call then replaces the files
 * of the other while it sets their owner and mode.
 */
export const isUnpackCollision = (error: unknown): boolean =>
  isServerErrorWith(error, /no such file or directory|file exists/i);

/** Whether the engine did not answer, or asked to retry later. The request itself was not wrong. */
export function isUnavailable(error: unknown): boolean {
  const status = statusOf(error);
  return status === null ? unreachableCodes.has(codeOf(error) ?? '') : busyStatuses.includes(status);
}
