/** Turns an EC2 error into a driver outcome with an owner, retryable or not. */
import type { DriverFailure, DriverWait } from '../driver.ts';
import {
  codeOf,
  hasNoCredentials,
  isCapacity,
  isThrottled,
  isUnavailable,
  messageOf,
  statusOf,
} from './cloud-error.ts';

export const unavailable_retry_seconds = 5;

export const cloudUnavailable = (
  region: string,
  because: string,
  retry_seconds = unavailable_retry_seconds,
): DriverWait => ({
  outcome: 'wait',
  retry_seconds,
  message: `EC2 in ${region} is unavailable (${because}); retrying`,
  put_off: true,
  error: { code: 'ec2_away', owner_layer: 'provider' },
});

/** Doubles the pause with each try, so that a provider that is full or throttles is called less. */
export const backoffSeconds = (times: number, first_seconds: number, max_seconds: number): number =>
  Math.min(max_seconds, first_seconds * 2 ** Math.min(times, 16));

const capacityPause = { first_seconds: 15, max_seconds: 120 };
const throttlePause = { first_seconds: 2, max_seconds: 60 };

export type RetryReason = 'capacity' | 'throttled' | 'away';

export const retryReasonOf = (error: unknown): RetryReason | null => {
  if (isCapacity(error)) return 'capacity';
  if (isThrottled(error)) return 'throttled';
  return isUnavailable(error) ? 'away' : null;
};

interface ErrorRule {
  codes: RegExp;
  code: string;
  /** True if an operator can remove the cause while the operation waits, such as a permission. */
  retryable: boolean;
  advice: string;
}

/** The first match applies. A code without a match becomes `ec2_refused`. */
const errorRules: ErrorRule[] = [
  {
    codes: /^(UnauthorizedOperation|AccessDenied(Exception)?|OptInRequired|PendingVerification|Blocked)$/,
    code: 'ec2_permission_denied',
    retryable: true,
    advice: 'grant the permission to the account that the server uses',
  },
  {
    codes:
      /^(AuthFailure|InvalidClientTokenId|SignatureDoesNotMatch|RequestExpired|ExpiredToken(Exception)?|UnrecognizedClient.*|MissingAuthenticationToken|IncompleteSignature)$/,
    code: 'ec2_credentials_refused',
    retryable: true,
    advice: "check the server's AWS credentials and its clock",
  },
  {
    codes: /^InvalidAMIID\./,
    code: 'image_missing',
    retryable: false,
    advice: "check the pool's image_id: an image belongs to one region and may be private",
  },
  {
    codes:
      /^(OperationNotPermitted|ResourceInUse|VolumeInUse|DependencyViolation|IncorrectInstanceState|IncorrectState)$/,
    code: 'ec2_refused',
    retryable: true,
    advice: 'Slipway retries; check whether the resource is in use or protected from termination',
  },
];

/**
 * Returns an outcome for an operational error. Rethrows any other error, which is a bug. `times`
 * counts the earlier tries in a row that failed for the same reason.
 */
export function cloudFailure(
  error: unknown,
  region: string,
  redact: (text: string) => string,
  times = 0,
): DriverFailure | DriverWait {
  const message = redact(messageOf(error));
  const code = codeOf(error);
  const detail = message.includes(code) ? message : `${code}: ${message}`;
  if (hasNoCredentials(error))
    return {
      outcome: 'failed',
      owner_layer: 'control_plane',
      code: 'ec2_no_credentials',
      message: `the server has no AWS credentials: ${message}. Provide them by environment, profile or instance role`,
      retryable: true,
    };
  if (isCapacity(error))
    return {
      outcome: 'wait',
      retry_seconds: backoffSeconds(times, capacityPause.first_seconds, capacityPause.max_seconds),
      message: `EC2 in ${region} has no capacity for this machine, or a limit of the account is reached (${detail})`,
      put_off: true,
      error: { code: 'no_capacity', owner_layer: 'provider' },
      waits_for: 'capacity',
    };
  if (isThrottled(error))
    return {
      outcome: 'wait',
      retry_seconds: backoffSeconds(times, throttlePause.first_seconds, throttlePause.max_seconds),
      message: `EC2 in ${region} throttles our requests (${detail}); retrying`,
      put_off: true,
      error: { code: 'ec2_throttled', owner_layer: 'provider' },
    };
  if (isUnavailable(error))
    return cloudUnavailable(
      region,
      detail,
      backoffSeconds(times, unavailable_retry_seconds, throttlePause.max_seconds),
    );
  if (statusOf(error) === null) throw error;
  const rule = errorRules.find(({ codes }) => codes.test(code));
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: rule?.code ?? 'ec2_refused',
    message: `EC2 in ${region} refused: ${detail}${rule ? `. What to do: ${rule.advice}` : ''}`,
    retryable: rule?.retryable ?? false,
  };
}
