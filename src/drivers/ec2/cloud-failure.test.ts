/** How an EC2 refusal is answered: its owner, and whether a retry can help. */
import { expect, it } from 'vitest';
import { cloudFailure } from './cloud-failure.ts';

const refusal = (facts: object, message = 'in its own words') => Object.assign(new Error(message), facts);
const answered = (Code: string, httpStatusCode = 400) => refusal({ name: Code, Code, $metadata: { httpStatusCode } });
const plain = (text: string) => text;

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
])("reports %s in EC2's words", (code, status, answer) => {
  const failure = cloudFailure(answered(code, status), 'eu-central-1', plain);
  expect(failure).toMatchObject(answer);
  if (failure.outcome === 'failed') expect(failure.owner_layer).toBe('provider');
  for (const word of [code, 'in its own words', 'eu-central-1']) expect(failure.message).toContain(word);
});

it.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'ETIMEDOUT'])('waits for %s', (code) => {
  expect(cloudFailure(refusal({ code }), 'eu-central-1', plain)).toMatchObject({ outcome: 'wait', retry_seconds: 5 });
});

it('waits longer each time, up to a limit', () => {
  const pauses = (code: string) =>
    [0, 1, 2, 3, 4, 50].map((times) => {
      const failure = cloudFailure(answered(code), 'eu-central-1', plain, times);
      return failure.outcome === 'wait' ? failure.retry_seconds : failure.outcome;
    });
  expect(pauses('InsufficientInstanceCapacity')).toEqual([15, 30, 60, 120, 120, 120]);
  expect(pauses('RequestLimitExceeded')).toEqual([2, 4, 8, 16, 32, 60]);
});

it('blames the server if it has no credentials', () => {
  const failure = cloudFailure(refusal({ name: 'CredentialsProviderError' }), 'eu-central-1', plain);
  expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'control_plane', code: 'ec2_no_credentials' });
});

it('rethrows a bug of ours', () => {
  expect(() => cloudFailure(new TypeError('undefined is no machine'), 'eu-central-1', plain)).toThrow(TypeError);
});
