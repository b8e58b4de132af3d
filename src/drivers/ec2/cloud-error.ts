/** Classifies the errors that the EC2 client throws. */
import { unansweredCodes } from '../upstream-error.ts';

const fieldsOf = (error: unknown): Record<string, unknown> =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {};

/**
 * The provider's code (`InsufficientInstanceCapacity`), the system's (`ECONNREFUSED`), or the
 * client's error name.
 */
export function codeOf(error: unknown): string {
  const { Code, code, name } = fieldsOf(error);
  for (const text of [Code, code, name]) if (typeof text === 'string' && text !== '' && text !== 'Error') return text;
  return '';
}

/** Returns null if EC2 did not answer. */
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
export const isTokenMismatch = (error: unknown): boolean => codeOf(error) === 'IdempotentParameterMismatch';
export const cannotBeStopped = (error: unknown): boolean => codeOf(error) === 'UnsupportedOperation';

const capacityCodes = new Set([
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

/**
 * The request is valid, but EC2 has no capacity (for Spot: at our price), the subnet has no free
 * address, or a limit of the account is reached.
 */
export const isCapacity = (error: unknown): boolean => capacityCodes.has(codeOf(error));

const throttlingCodes =
  /^(RequestLimitExceeded|Throttling|ThrottlingException|ThrottledException|TooManyRequestsException|SlowDown|EC2ThrottledException|PriorRequestNotComplete|RequestThrottled.*)$/;

export const isThrottled = (error: unknown): boolean => throttlingCodes.test(codeOf(error)) || statusOf(error) === 429;

const unavailableCodes = new Set<string>([
  ...unansweredCodes,
  'AbortError',
  'TimeoutError',
  'InternalError',
  'InternalFailure',
  'ServiceUnavailable',
  'Unavailable',
  'ServerInternal',
]);

/** Whether EC2 did not answer or failed. It is then unknown whether it executed the request. */
export const isUnavailable = (error: unknown): boolean =>
  unavailableCodes.has(codeOf(error)) || (statusOf(error) ?? 0) >= 500;

export const hasNoCredentials = (error: unknown): boolean =>
  /CredentialsProviderError|TokenProviderError|ProviderError/.test(String(fieldsOf(error).name ?? ''));
