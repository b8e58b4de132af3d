/**
 * Explains failures of a bucket by their codes. Texts of the store are left out: a store may repeat
 * the credentials of a request in them.
 */
import { StorageError } from './storage.ts';

interface Request {
  bucket: string;
  /** The object or prefix of the request. */
  path: string;
  /** Null for AWS. */
  endpoint: string | null;
}

interface Known {
  code: string;
  title(request: Request): string;
  remedy: string;
}

const credentials: Known = {
  code: 'storage_credentials',
  title: ({ bucket }) => `The store of the bucket ${bucket} refuses the credentials`,
  remedy:
    'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN if they are temporary), AWS_PROFILE, or a role of this machine. For an S3-compatible store, check --s3-endpoint too.',
};
const denied: Known = {
  code: 'storage_denied',
  title: ({ path }) => `Access to ${path} is denied`,
  remedy:
    'Allow the account s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucketMultipartUploads there.',
};
const otherRegion: Known = {
  code: 'storage_region',
  title: ({ bucket }) => `The bucket ${bucket} is in another region`,
  remedy: 'Set AWS_REGION to the region of the bucket.',
};
const away: Known = {
  code: 'storage_unavailable',
  title: ({ endpoint }) => `The store at ${endpoint ?? 'AWS'} does not answer`,
  remedy: 'Check --s3-endpoint or AWS_ENDPOINT_URL, the network, and the certificate of the store.',
};
const failed: Known = {
  code: 'storage_failed',
  title: ({ path }) => `${path} cannot be used`,
  remedy: 'Look up that code in the documentation of the store.',
};

const byCode: Record<string, Known> = {
  CredentialsProviderError: {
    ...credentials,
    title: ({ bucket }) => `There are no credentials for the bucket ${bucket}`,
  },
  InvalidAccessKeyId: credentials,
  SignatureDoesNotMatch: credentials,
  InvalidToken: credentials,
  ExpiredToken: credentials,
  AuthorizationHeaderMalformed: otherRegion,
  PermanentRedirect: otherRegion,
  IllegalLocationConstraintException: otherRegion,
  AccessDenied: denied,
  RequestTimeTooSkewed: {
    code: 'storage_clock',
    title: () => 'The clock of this host is wrong',
    remedy: 'Set the clock of this host, for example with NTP.',
  },
  NoSuchBucket: {
    code: 'bucket_missing',
    title: ({ bucket }) => `There is no bucket ${bucket}`,
    remedy: 'Create the bucket, or correct its name. For an S3-compatible store, check --s3-endpoint too.',
  },
  NoSuchKey: {
    code: 'backup_missing',
    title: ({ path }) => `There is no ${path}`,
    remedy: 'List the backups there with slipway backup list s3://BUCKET/PREFIX.',
  },
  PreconditionFailed: {
    code: 'storage_changed',
    title: ({ path }) => `${path} changed while it was read`,
    remedy: 'Start again.',
  },
  TimeoutError: away,
};

/** Codes are words. Anything else may be more than a code. */
const wordPattern = /^[A-Za-z][A-Za-z0-9_.-]{1,63}$/;
const wordFrom = (value: unknown): string | undefined =>
  typeof value === 'string' && wordPattern.test(value) ? value : undefined;

/** Failures of other parts, such as the source of an upload, stay as they are. */
export function describeBucketError(error: unknown, request: Request): unknown {
  if (!(error instanceof Error) || error.name === 'AbortError') return error;
  const { $metadata, code } = error as { $metadata?: { httpStatusCode?: number }; code?: unknown };
  const status = $metadata?.httpStatusCode;
  const name = wordFrom(error.name) ?? 'an unknown error';
  const system = status === undefined ? wordFrom(code) : undefined;
  const known = byCode[name] ?? (system === undefined ? failed : away);
  const reason = system ?? name;
  return new StorageError(known.code, known.title(request), {
    why: status === undefined ? `The request failed with ${reason}.` : `The store answered ${reason} (HTTP ${status}).`,
    remedy: known.remedy,
  });
}

export const regionMissingError = (): StorageError =>
  new StorageError('storage_region', 'The region of the bucket is unknown', {
    why: 'Neither AWS_REGION nor the profile of AWS names one.',
    remedy: 'Set AWS_REGION. Most S3-compatible stores accept us-east-1.',
  });

export const uploadTooLargeError = (path: string, maxBytes: number): StorageError =>
  new StorageError('storage_too_large', `The backup does not fit into ${path}`, {
    why: `An object has at most ${Math.floor(maxBytes / 2 ** 30)} GiB.`,
    remedy: 'Back up into a directory, or use the tools of your PostgreSQL.',
  });
