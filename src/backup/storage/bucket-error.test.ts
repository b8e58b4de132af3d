/** Explanations of a store's errors name codes, and never repeat its texts. */
import { expect, test } from 'vitest';
import { describeFailure } from '../failure.ts';
import { describeBucketError } from './bucket-error.ts';

const secret = 'a-secret+/that-no-store/may-repeat=';
const request = { bucket: 'backups', path: 's3://backups/a', endpoint: 'http://minio:9000' };

const errorOf = (name: string, fields: object) =>
  Object.assign(new Error(`the request with ${secret} failed`), { name, ...fields });
const describe = (name: string, fields: object) => describeFailure(describeBucketError(errorOf(name, fields), request));
const answered = (status: number) => ({ $metadata: { httpStatusCode: status }, AWSAccessKeyId: secret });

test.for<[string, object, string, string]>([
  ['NoSuchBucket', answered(404), 'bucket_missing', 'The store answered NoSuchBucket (HTTP 404).'],
  ['SignatureDoesNotMatch', answered(403), 'storage_credentials', 'SignatureDoesNotMatch'],
  ['AccessDenied', answered(403), 'storage_denied', 'AccessDenied'],
  ['PermanentRedirect', answered(301), 'storage_region', 'PermanentRedirect'],
  ['SlowDown', answered(503), 'storage_failed', 'SlowDown (HTTP 503)'],
  [secret, answered(400), 'storage_failed', 'an unknown error (HTTP 400)'],
  ['Error', { code: 'ECONNREFUSED', $metadata: { attempts: 3 } }, 'storage_unavailable', 'ECONNREFUSED'],
  ['TimeoutError', {}, 'storage_unavailable', 'TimeoutError'],
  ['CredentialsProviderError', {}, 'storage_credentials', 'CredentialsProviderError'],
])('explains %s', ([name, fields, code, detail]) => {
  const failure = describe(name, fields);
  expect(failure.code).toBe(code);
  expect(failure.detail).toContain(detail);
  expect(failure.remedy).not.toBeNull();
  expect(JSON.stringify(failure)).not.toContain(secret);
});

test('passes an abort on', () => {
  const aborted = errorOf('AbortError', {});
  expect(describeBucketError(aborted, request)).toBe(aborted);
});
