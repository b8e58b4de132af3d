/**
 * Interprets an engine's refusal. Docker uses statuses; Podman's compatible API reports some cases
 * only as a 500 with a message.
 */
import { codeOf, statusOf, unanswered } from '../upstream-error.ts';

/** The engine's own message, without the client's prefix. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const json = 'json' in error ? error.json : null;
  if (typeof json === 'object' && json !== null && 'message' in json && typeof json.message === 'string')
    return json.message;
  return withoutClientPrefix(error);
}

/**
 * For streaming requests dockerode does not parse the body. It prefixes the engine's message with
 * the status.
 */
function withoutClientPrefix(error: Error): string {
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : 'unexpected';
  const prefix = `(HTTP code ${statusOf(error)}) ${reason} - `;
  return error.message.startsWith(prefix) ? error.message.slice(prefix.length).trim() : error.message;
}

/** Matches an invalid image name, reported by the engine or by the registry. */
export const invalidName = /invalid reference|must be lowercase|name invalid/i;

const says = (error: unknown, words: RegExp) => statusOf(error) === 500 && words.test(messageOf(error));

/** Docker answers 400 to an invalid image name, Podman 500. */
export const isInvalidName = (error: unknown): boolean =>
  [400, 500].includes(statusOf(error) ?? 0) && invalidName.test(messageOf(error));

export const isMissing = (error: unknown): boolean => statusOf(error) === 404;

export const isConflict = (error: unknown): boolean =>
  statusOf(error) === 409 || says(error, /already in use|removal of container .* is already in progress/i);

export const isNotRunning = (error: unknown): boolean =>
  statusOf(error) === 409 || says(error, /container state improper|is not running/i);

const away = new Set<string>([...unanswered, 'ENOENT']);
const busy = [429, 502, 503, 504];

/** No answer, or an answer to retry later: nothing about the request was wrong. */
export function isAway(error: unknown): boolean {
  const status = statusOf(error);
  return status === null ? away.has(codeOf(error) ?? '') : busy.includes(status);
}
