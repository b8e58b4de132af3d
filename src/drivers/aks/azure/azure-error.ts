/** Interprets Azure's refusals: status, code, message, and retry time. */
import { codeOf, statusOf, unanswered } from '../../upstream-error.ts';

export interface ProviderError {
  /** Azure's own code. */
  code: string;
  message: string;
}

interface WireError {
  code?: unknown;
  message?: unknown;
  details?: unknown;
  innererror?: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

const max_message_length = 1500;

/**
 * Returns the messages of an error and its inner errors, each once. The outer messages often say
 * only that something failed.
 */
function messagesIn(error: WireError): string[] {
  const own = typeof error.message === 'string' && error.message !== '' ? [error.message] : [];
  const inner = [...(Array.isArray(error.details) ? error.details : []), error.innererror].filter(isObject);
  return [...new Set([...own, ...inner.flatMap(messagesIn)])];
}

/** Reads an error from a body, a cluster or an operation; undefined if there is none. */
export function providerError(wire: unknown): ProviderError | undefined {
  if (!isObject(wire)) return undefined;
  const error: WireError = isObject(wire.error) ? wire.error : wire;
  const words = messagesIn(error).join(' ');
  if (typeof error.code !== 'string' && words === '') return undefined;
  return {
    code: typeof error.code === 'string' && error.code !== '' ? error.code : 'Unknown',
    message: words.slice(0, max_message_length),
  };
}

/** Azure's own message, without the client's prefix. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const said = 'details' in error ? providerError(error.details) : undefined;
  return (said?.message || error.message).slice(0, max_message_length);
}

/**
 * Only these codes mean that a resource does not exist. A 404 by a proxy, or for an invisible
 * subscription, says nothing about the resource.
 */
const missing = new Set([
  'ResourceNotFound',
  'ResourceGroupNotFound',
  'ParentResourceNotFound',
  'NotFound',
  'RoleAssignmentNotFound',
]);

export const isMissing = (error: unknown): boolean => statusOf(error) === 404 && missing.has(codeOf(error) ?? '');

const away = new Set<string>([...unanswered, 'REQUEST_SEND_ERROR', 'network_error', 'endpoints_resolution_error']);
const busy = [408, 429, 500, 502, 503, 504];

function isAwayItself(error: unknown): boolean {
  const status = statusOf(error);
  if (status !== null && status > 0) return busy.includes(status);
  if (error instanceof Error && error.name === 'AbortError') return true;
  const errorCode = error instanceof Error && 'errorCode' in error ? error.errorCode : null;
  return away.has(codeOf(error) ?? '') || (typeof errorCode === 'string' && away.has(errorCode));
}

/** No answer, or an answer to retry later: nothing about the request was wrong. */
export const isAway = (error: unknown): boolean =>
  isAwayItself(error) || (error instanceof Error && error.cause !== undefined && isAway(error.cause));

/** In seconds, if Azure sent it. */
export function retryAfterOf(error: unknown, nowMs: number): number | null {
  if (!(error instanceof Error) || !('response' in error) || !isObject(error.response)) return null;
  const { headers } = error.response;
  if (!isObject(headers) || typeof headers.get !== 'function') return null;
  return secondsIn(headers.get('retry-after'), nowMs);
}

/** Seconds, or a date. */
export function secondsIn(header: unknown, nowMs: number): number | null {
  if (typeof header !== 'string' || header.trim() === '') return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, (at - nowMs) / 1000);
}
