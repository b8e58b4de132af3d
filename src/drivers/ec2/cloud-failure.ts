/** Turns an EC2 refusal into a driver's answer: its owner, and whether a retry can help. */
import type { DriverFailure, DriverWait } from '../driver.ts';
import { codeOf, hasNoCredentials, isAway, isCapacity, isThrottled, messageOf, statusOf } from './cloud-error.ts';

export const away_seconds = 5;

export const cloudAway = (region: string, because: string, retry_seconds = away_seconds): DriverWait => ({
  outcome: 'wait',
  retry_seconds,
  message: `EC2 in ${region} does not answer (${because}); it is asked again`,
  put_off: true,
  error: { code: 'ec2_away', owner_layer: 'provider' },
});

/**
 * Grows with each try, so that a provider without capacity, or one that throttles us, is called
 * less often.
 */
export const backoff = (times: number, first_seconds: number, max_seconds: number): number =>
  Math.min(max_seconds, first_seconds * 2 ** Math.min(times, 16));

const room = { first_seconds: 15, max_seconds: 120 };
const throttled = { first_seconds: 2, max_seconds: 60 };

export type Refused = 'capacity' | 'throttled' | 'away';

export const refusedFor = (error: unknown): Refused | null => {
  if (isCapacity(error)) return 'capacity';
  if (isThrottled(error)) return 'throttled';
  return isAway(error) ? 'away' : null;
};

interface Meaning {
  codes: RegExp;
  code: string;
  /** Somebody else can fix it while we wait: a permission, a quota, a protection. */
  retryable: boolean;
  what_to_do: string;
}

/** The first match counts; anything else is `ec2_refused`. */
const meanings: Meaning[] = [
  {
    codes: /^(UnauthorizedOperation|AccessDenied(Exception)?|OptInRequired|PendingVerification|Blocked)$/,
    code: 'ec2_permission_denied',
    retryable: true,
    what_to_do: 'allow it to the account that the server uses',
  },
  {
    codes:
      /^(AuthFailure|InvalidClientTokenId|SignatureDoesNotMatch|RequestExpired|ExpiredToken(Exception)?|UnrecognizedClient.*|MissingAuthenticationToken|IncompleteSignature)$/,
    code: 'ec2_credentials_refused',
    retryable: true,
    what_to_do: "look at the server's AWS credentials and its clock",
  },
  {
    codes: /^InvalidAMIID\./,
    code: 'image_missing',
    retryable: false,
    what_to_do: "look at the pool's image_id: images belong to one region and may be private",
  },
  {
    codes:
      /^(OperationNotPermitted|ResourceInUse|VolumeInUse|DependencyViolation|IncorrectInstanceState|IncorrectState)$/,
    code: 'ec2_refused',
    retryable: true,
    what_to_do: 'it is tried again; see whether somebody protects it from termination',
  },
];

/**
 * An operational error becomes a value; anything else is a bug and is rethrown. `times` is how
 * often in a row it was put off for the same reason.
 */
export function cloudFailure(
  error: unknown,
  region: string,
  redact: (text: string) => string,
  times = 0,
): DriverFailure | DriverWait {
  const words = redact(messageOf(error));
  const code = codeOf(error);
  const detail = words.includes(code) ? words : `${code}: ${words}`;
  if (hasNoCredentials(error))
    return {
      outcome: 'failed',
      owner_layer: 'control_plane',
      code: 'ec2_no_credentials',
      message: `the server has no AWS credentials: ${words}. Give it some by environment, profile or instance role`,
      retryable: true,
    };
  if (isCapacity(error))
    return {
      outcome: 'wait',
      retry_seconds: backoff(times, room.first_seconds, room.max_seconds),
      message: `EC2 in ${region} has no room for this machine now (${detail})`,
      put_off: true,
      error: { code: 'no_capacity', owner_layer: 'provider' },
      waits_for: 'capacity',
    };
  if (isThrottled(error))
    return {
      outcome: 'wait',
      retry_seconds: backoff(times, throttled.first_seconds, throttled.max_seconds),
      message: `EC2 in ${region} is asked too often (${detail}); it is asked again`,
      put_off: true,
      error: { code: 'ec2_throttled', owner_layer: 'provider' },
    };
  if (isAway(error)) return cloudAway(region, detail, backoff(times, away_seconds, throttled.max_seconds));
  if (statusOf(error) === null) throw error;
  const meaning = meanings.find(({ codes }) => codes.test(code));
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: meaning?.code ?? 'ec2_refused',
    message: `EC2 in ${region} refused: ${detail}${meaning ? `. What to do: ${meaning.what_to_do}` : ''}`,
    retryable: meaning?.retryable ?? false,
  };
}
