/** Turns an Azure refusal into a driver's answer: its owner, and whether a retry can help. */
import type { DriverFailure, DriverWait } from '../../driver.ts';
import { codeOf, statusOf } from '../../upstream-error.ts';
import { isAway, messageOf, type ProviderError, retryAfterOf } from './azure-error.ts';

export const away_seconds = 5;
/** Pause if Azure is busy with a resource of ours and names no time. */
const conflict_seconds = 10;
/** The longest pause we accept from Azure. */
const max_seconds = 3600;

interface Meaning {
  code: RegExp;
  /** Tells the meanings apart if Azure uses one code for several. */
  words?: RegExp;
  means: 'wait' | 'failed';
  retryable?: boolean;
}

/** The first match counts. For unlisted codes the status decides. */
const meanings: Meaning[] = [
  // Compute uses "operation not allowed" both for a running operation and for a quota.
  { code: /./, words: /quota|approved total regional cores/i, means: 'failed', retryable: true },
  { code: /Quota|LimitReached|LimitExceeded/i, means: 'failed', retryable: true },
  { code: /AllocationFailed|AllocationRequest|CapacityNotAvailable|OutOfCapacity/i, means: 'failed', retryable: true },
  {
    code: /^(SkuNotAvailable|VMSizeNotSupported|NotAvailableForSubscription|BadVMSize)/i,
    means: 'failed',
    retryable: false,
  },
  { code: /^RequestDisallowedByPolicy$/, means: 'failed', retryable: false },
  // The request is right, so a retry helps after an operator restores the permission or account.
  {
    code: /Authorization(Failed|PermissionMismatch)|Forbidden|AuthenticationToken|^ScopeLocked$/i,
    means: 'failed',
    retryable: true,
  },
  {
    code: /^(MissingSubscriptionRegistration|ReadOnlyDisabledSubscription|SubscriptionNotRegistered)$/,
    means: 'failed',
    retryable: true,
  },
  {
    code: /^(OperationNotAllowed|Conflict|.*InProgress|.*BeingDeleted|.*ConcurrentWrite.*|OperationPreempted|.*PreemptedByAnotherOperation|PreconditionFailed|RetryableError|TooManyRequests|.*Throttl.*)$/i,
    means: 'wait',
  },
  { code: /./, words: /operation\b.{0,80}\bin progress|being deleted|try again later/i, means: 'wait' },
  // A new principal is not known everywhere yet.
  { code: /^PrincipalNotFound$/, means: 'wait' },
];

export const meaningOf = ({ code, message }: ProviderError): Meaning | undefined =>
  meanings.find((each) => each.code.test(code) && (each.words === undefined || each.words.test(message)));

export const azureAway = (because: string, retry_seconds = away_seconds): DriverWait => ({
  outcome: 'wait',
  retry_seconds,
  message: `Azure does not answer (${because}); it is asked again`,
  put_off: true,
  error: { code: 'azure_away', owner_layer: 'provider' },
});

const failed = (code: string, message: string, retryable: boolean, phase?: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code,
  message,
  retryable,
  ...(phase && { phase }),
});

/** For an error inside an Azure resource or operation, as opposed to a refused request. */
export function providerFailure(error: ProviderError, about: string, redact: (text: string) => string, phase?: string) {
  const meaning = meaningOf(error);
  return failed(error.code, `${about}: ${error.code}: ${redact(error.message)}`, meaning?.retryable ?? false, phase);
}

const signIn = new Set([
  'AuthenticationError',
  'AuthenticationRequiredError',
  'AggregateAuthenticationError',
  'CredentialUnavailableError',
  'ClientConfigurationError',
]);

const inTime = (seconds: number | null, usual: number) => Math.min(seconds ?? usual, max_seconds);

/** An operational error becomes a value; anything else is a bug and is rethrown. */
export function azureFailure(
  error: unknown,
  { redact, now_ms, phase }: { redact: (text: string) => string; now_ms: number; phase?: string },
): DriverFailure | DriverWait {
  const words = redact(messageOf(error));
  const status = statusOf(error);
  const after = retryAfterOf(error, now_ms);
  const where = phase ? { phase } : {};
  if (isAway(error)) {
    const because = status === null ? words : `${status}${codeOf(error) ? ` ${codeOf(error)}` : ''}: ${words}`;
    return { ...azureAway(because, inTime(after, away_seconds)), ...where };
  }
  if (error instanceof Error && signIn.has(error.name))
    return failed('azure_sign_in_failed', `Azure does not let this server's account in: ${words}`, true, phase);
  if (status === null) throw error;
  const code = codeOf(error) ?? `HTTP ${status}`;
  const meaning = meaningOf({ code, message: messageOf(error) });
  if (meaning?.means === 'wait')
    return {
      outcome: 'wait',
      retry_seconds: inTime(after, conflict_seconds),
      message: `Azure asks to come again (${code}: ${words})`,
      put_off: true,
      error: { code, owner_layer: 'provider' },
      ...where,
    };
  const isRetryable = meaning?.retryable ?? [401, 403].includes(status);
  return failed(code, `Azure refused: ${code}: ${words}`, isRetryable, phase);
}
