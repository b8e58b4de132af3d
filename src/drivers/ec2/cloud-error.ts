/** Interprets the errors that the EC2 client throws. */
import { unanswered } from '../upstream-error.ts';

const fieldsOf = (error: unknown): Record<string, unknown> =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {};

/**
 * The provider's code (`InsufficientInstanceCapacity`), the system's (`ECONNREFUSED`), or the
 * client's error name.
 */
export function codeOf(error: unknown): string {
  const { Code, code, name } = fieldsOf(error);
  for (const word of [Code, code, name]) if (typeof word === 'string' && word !== '' && word !== 'Error') return word;
  return '';
}

/** Null if there was no answer. */
export function statusOf(error: unknown): number | null {
  const { httpStatusCode } = fieldsOf(fieldsOf(error).$metadata);
  if (typeof httpStatusCode === 'number') return httpStatusCode;
  const { statusCode } = fieldsOf(fieldsOf(error).$response);
  return typeof statusCode === 'number' ? statusCode : null;
}

/** An AggregateError of several refused addresses has no message of its own. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}

export const isMissing = (error: unknown): boolean => /^Invalid\w+(ID)?\.(NotFound|Malformed)$/.test(codeOf(error));
export const isTokenOfOther = (error: unknown): boolean => codeOf(error) === 'IdempotentParameterMismatch';
export const cannotBeStopped = (error: unknown): boolean => codeOf(error) === 'UnsupportedOperation';

const noRoom = new Set([
  'InsufficientInstanceCapacity',
  'InsufficientHostCapacity',
  'InsufficientReservedInstanceCapacity',
  'InsufficientCapacity',
  'InsufficientFreeAddressesInSubnet',
  'InstanceLimitExceeded',
  'VcpuLimitExceeded',
  'MaxSpotInstanceCountExceeded',
  'SpotMaxPriceTooLow',
]);

/** The request is valid and EC2 answers, but there is no capacity or quota now. */
export const isCapacity = (error: unknown): boolean => noRoom.has(codeOf(error));

const throttles =
  /^(RequestLimitExceeded|Throttling|ThrottlingException|ThrottledException|TooManyRequestsException|SlowDown|EC2ThrottledException|PriorRequestNotComplete|RequestThrottled.*)$/;

export const isThrottled = (error: unknown): boolean => throttles.test(codeOf(error)) || statusOf(error) === 429;

const away = new Set<string>([
  ...unanswered,
  'AbortError',
  'TimeoutError',
  'InternalError',
  'InternalFailure',
  'ServiceUnavailable',
  'Unavailable',
  'ServerInternal',
]);

/** No answer, or a server error: it is unknown whether the request was carried out. */
export const isAway = (error: unknown): boolean => away.has(codeOf(error)) || (statusOf(error) ?? 0) >= 500;

export const hasNoCredentials = (error: unknown): boolean =>
  /CredentialsProviderError|TokenProviderError|ProviderError/.test(String(fieldsOf(error).name ?? ''));
