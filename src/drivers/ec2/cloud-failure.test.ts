/** Tests which outcome, owner and retry an error of EC2 leads to. */
import { expect, it } from 'vitest';
import { cloudFailure } from './cloud-failure.ts';

const errorWith = (facts: object, message = 'message of EC2') => Object.assign(new Error(message), facts);
const responseError = (Code: string, httpStatusCode = 400) =>
  errorWith({ name: Code, Code, $metadata: { httpStatusCode } });
const keepText = (text: string) => text;

it.each([
  ['InsufficientInstanceCapacity', 500, { outcome: 'wait', waits_for: 'capacity' }],
  ['InstanceLimitExceeded', 400, { outcome: 'wait', waits_for: 'capacity' }],
  ['VcpuLimitExceeded', 400, { outcome: 'wait', waits_for: 'capacity' }],
  ['RequestLimitExceeded', 503, { outcome: 'wait', retry_seconds: 2 }],
  ['Unavailable', 503, { outcome: 'wait', retry_seconds: 5 }],
  ['InternalError', 500, { outcome: 'wait', retry_seconds: 5 }],
  ['UnauthorizedOperation', 403, { outcome: 'failed', code: 'ec2_permission_denied', retryable: true }],
  ['AuthFailure', 401, { outcome: 'failed', code: 'ec2_credentials_refused', retryable: true }],
  ['InvalidAMIID.NotFound', 400, { outcome: 'failed', code: 'image_missing', retryable: false }],
  ['OperationNotPermitted', 400, { outcome: 'failed', code: 'ec2_refused', retryable: true }],
  ['InvalidParameterValue', 400, { outcome: 'failed', code: 'ec2_refused', retryable: false }],
])("reports %s with EC2's code and message", (code, status, expected) => {
  const failure = cloudFailure(responseError(code, status), 'eu-central-1', keepText);
  expect(failure).toMatchObject(expected);
  if (failure.outcome === 'failed') expect(failure.owner_layer).toBe('provider');
  for (const word of [code, 'message of EC2', 'eu-central-1']) expect(failure.message).toContain(word);
});

it.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'ETIMEDOUT'])('retries after %s', (code) => {
  expect(cloudFailure(errorWith({ code }), 'eu-central-1', keepText)).toMatchObject({
    outcome: 'wait',
    retry_seconds: 5,
  });
});

it('doubles the pause after each try, up to a limit', () => {
  const pauses = (code: string) =>
    [0, 1, 2, 3, 4, 50].map((times) => {
      const failure = cloudFailure(responseError(code), 'eu-central-1', keepText, times);
      return failure.outcome === 'wait' ? failure.retry_seconds : failure.outcome;
    });
  expect(pauses('InsufficientInstanceCapacity')).toEqual([15, 30, 60, 120, 120, 120]);
  expect(pauses('RequestLimitExceeded')).toEqual([2, 4, 8, 16, 32, 60]);
});

it('names the control plane as owner if the server has no credentials', () => {
  const failure = cloudFailure(errorWith({ name: 'CredentialsProviderError' }), 'eu-central-1', keepText);
  expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'control_plane', code: 'ec2_no_credentials' });
});

it('rethrows an error that is a bug in the driver', () => {
  expect(() => cloudFailure(new TypeError('undefined is no machine'), 'eu-central-1', keepText)).toThrow(TypeError);
});
