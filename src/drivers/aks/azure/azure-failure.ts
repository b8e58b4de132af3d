/** Turns an Azure error into a driver's answer, and decides whether a retry can help. */
import type { DriverFailure, DriverWait } from '../../driver.ts';
import { codeOf, statusOf } from '../../upstream-error.ts';
import { isUnavailable, messageOf, type ProviderError, retryAfterOf } from './azure-error.ts';

const unavailable_retry_seconds = 5;
/** The pause while Azure is busy with one of our resources, if Azure names no time. */
const conflict_retry_seconds = 10;
/** The longest pause that we accept from Azure. */
const max_retry_seconds = 3600;

interface ErrorRule {
  code: RegExp;
  /** If set, the message must match too, because Azure uses some codes for several errors. */
  message?: RegExp;
  outcome: 'wait' | 'failed';
  retryable?: boolean;
}

/**
 * The first matching rule applies. If none matches a refused request, the HTTP status decides.
 * `providerFailure` reads only `retryable`, and treats an unset one as false.
 */
const errorRules: ErrorRule[] = [
  // Compute uses "operation not allowed" both for a running operation and for a quota.
  { code: /./, message: /quota|approved total regional cores/i, outcome: 'failed', retryable: true },
  { code: /Quota|LimitReached|LimitExceeded/i, outcome: 'failed', retryable: true },
  {
    code: /AllocationFailed|AllocationRequest|CapacityNotAvailable|OutOfCapacity/i,
    outcome: 'failed',
    retryable: true,
  },
  {
    code: /^(SkuNotAvailable|VMSizeNotSupported|NotAvailableForSubscription|BadVMSize)/i,
    outcome: 'failed',
    retryable: false,
  },
  { code: /^RequestDisallowedByPolicy$/, outcome: 'failed', retryable: false },
  // The request is right, so a retry helps after an operator restores the permission or account.
  {
    code: /Authorization(Failed|PermissionMismatch)|Forbidden|AuthenticationToken|^ScopeLocked$/i,
    outcome: 'failed',
    retryable: true,
  },
  {
    code: /^(MissingSubscriptionRegistration|ReadOnlyDisabledSubscription|SubscriptionNotRegistered)$/,
    outcome: 'failed',
    retryable: true,
  },
  {
    code: /^(OperationNotAllowed|Conflict|.*InProgress|.*BeingDeleted|.*ConcurrentWrite.*|OperationPreempted|.*PreemptedByAnotherOperation|PreconditionFailed|RetryableError|TooManyRequests|.*Throttl.*)$/i,
    outcome: 'wait',
  },
  { code: /./, message: /operation\b.{0,80}\bin progress|being deleted|try again later/i, outcome: 'wait' },
  // A new principal becomes visible to Azure's services at different times.
  { code: /^PrincipalNotFound$/, outcome: 'wait' },
];

const ruleFor = ({ code, message }: ProviderError): ErrorRule | undefined =>
  errorRules.find((rule) => rule.code.test(code) && (rule.message === undefined || rule.message.test(message)));

export const azureUnavailable = (because: string, retry_seconds = unavailable_retry_seconds): DriverWait => ({
  outcome: 'wait',
  retry_seconds,
  message: `Azure is unavailable (${because}); retrying`,
  put_off: true,
  error: { code: 'azure_away', owner_layer: 'provider' },
});

const failure = (code: string, message: string, retryable: boolean, phase?: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code,
  message,
  retryable,
  ...(phase && { phase }),
});

/**
 * Returns the failure for an error that a resource or operation reports, not a refused request. The
 * operation has ended, so waiting cannot help: the next call would only find the same error.
 */
export function providerFailure(error: ProviderError, about: string, redact: (text: string) => string, phase?: string) {
  const isRetryable = ruleFor(error)?.retryable ?? false;
  return failure(error.code, `${about}: ${error.code}: ${redact(error.message)}`, isRetryable, phase);
}

const signInErrors = new Set([
  'AuthenticationError',
  'AuthenticationRequiredError',
  'AggregateAuthenticationError',
  'CredentialUnavailableError',
  'ClientConfigurationError',
]);

const limitRetry = (seconds: number | null, default_seconds: number) =>
  Math.min(seconds ?? default_seconds, max_retry_seconds);

/** Turns an operational error into an answer. Rethrows any other error, because it is a bug. */
export function azureFailure(
  error: unknown,
  { redact, now_ms, phase }: { redact: (text: string) => string; now_ms: number; phase?: string },
): DriverFailure | DriverWait {
  const message = redact(messageOf(error));
  const status = statusOf(error);
  const retry_after_seconds = retryAfterOf(error, now_ms);
  const phaseField = phase ? { phase } : {};
  if (isUnavailable(error)) {
    const because = status === null ? message : `${status}${codeOf(error) ? ` ${codeOf(error)}` : ''}: ${message}`;
    return { ...azureUnavailable(because, limitRetry(retry_after_seconds, unavailable_retry_seconds)), ...phaseField };
  }
  if (error instanceof Error && signInErrors.has(error.name))
    return failure('azure_sign_in_failed', `this server could not sign in to Azure: ${message}`, true, phase);
  if (status === null) throw error;
  const code = codeOf(error) ?? `HTTP ${status}`;
  const rule = ruleFor({ code, message: messageOf(error) });
  if (rule?.outcome === 'wait')
    return {
      outcome: 'wait',
      retry_seconds: limitRetry(retry_after_seconds, conflict_retry_seconds),
      message: `Azure asks to retry later (${code}: ${message})`,
      put_off: true,
      error: { code, owner_layer: 'provider' },
      ...phaseField,
    };
  const isRetryable = rule?.retryable ?? [401, 403].includes(status);
  return failure(code, `Azure refused the request: ${code}: ${message}`, isRetryable, phase);
}
