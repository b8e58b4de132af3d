/** Reads the code, message and retry time from Azure's errors, and classifies the errors. */
import { codeOf, statusOf, unansweredCodes } from '../../upstream-error.ts';

export interface ProviderError {
  /** The code as Azure spells it. */
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
 * Returns the messages of an error and its inner errors, without repetitions. The outer message
 * often says only that something failed.
 */
function messagesIn(error: WireError): string[] {
  const own = typeof error.message === 'string' && error.message !== '' ? [error.message] : [];
  const inner = [...(Array.isArray(error.details) ? error.details : []), error.innererror].filter(isObject);
  return [...new Set([...own, ...inner.flatMap(messagesIn)])];
}

/** Reads the error in a response body, a cluster or an operation. Undefined if it has none. */
export function providerError(wire: unknown): ProviderError | undefined {
  if (!isObject(wire)) return undefined;
  const error: WireError = isObject(wire.error) ? wire.error : wire;
  const message = messagesIn(error).join(' ');
  if (typeof error.code !== 'string' && message === '') return undefined;
  return {
    code: typeof error.code === 'string' && error.code !== '' ? error.code : 'Unknown',
    message: message.slice(0, max_message_length),
  };
}

/** Returns Azure's message without the prefix that the client adds. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'details' in error ? providerError(error.details) : undefined;
  return (inner?.message || error.message).slice(0, max_message_length);
}

/**
 * Only these codes mean that a resource does not exist. A 404 can also come from a proxy, or from a
 * subscription that this account cannot see; the resource may exist then.
 */
const missingCodes = new Set([
  'ResourceNotFound',
  'ResourceGroupNotFound',
  'ParentResourceNotFound',
  'NotFound',
  'RoleAssignmentNotFound',
]);

export const isMissing = (error: unknown): boolean => statusOf(error) === 404 && missingCodes.has(codeOf(error) ?? '');

const unavailableCodes = new Set<string>([
  ...unansweredCodes,
  'REQUEST_SEND_ERROR',
  'network_error',
  'endpoints_resolution_error',
]);
const unavailableStatuses = [408, 429, 500, 502, 503, 504];

function isUnavailableItself(error: unknown): boolean {
  const status = statusOf(error);
  if (status !== null && status > 0) return unavailableStatuses.includes(status);
  if (error instanceof Error && error.name === 'AbortError') return true;
  const errorCode = error instanceof Error && 'errorCode' in error ? error.errorCode : null;
  return (
    unavailableCodes.has(codeOf(error) ?? '') || (typeof errorCode === 'string' && unavailableCodes.has(errorCode))
  );
}

/** Whether Azure did not answer, or asked to retry later. The request itself was not wrong. */
export const isUnavailable = (error: unknown): boolean =>
  isUnavailableItself(error) || (error instanceof Error && error.cause !== undefined && isUnavailable(error.cause));

/** Returns the `Retry-After` header of the response in seconds; null if Azure sent none. */
export function retryAfterOf(error: unknown, nowMs: number): number | null {
  if (!(error instanceof Error) || !('response' in error) || !isObject(error.response)) return null;
  const { headers } = error.response;
  if (!isObject(headers) || typeof headers.get !== 'function') return null;
  return secondsIn(headers.get('retry-after'), nowMs);
}

/** Reads a `Retry-After` header, which contains seconds or a date. */
export function secondsIn(header: unknown, nowMs: number): number | null {
  if (typeof header !== 'string' || header.trim() === '') return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, (at - nowMs) / 1000);
}
