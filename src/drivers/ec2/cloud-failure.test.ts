/** What a refusal of EC2 becomes: whose problem, and whether asking again can help. */
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
])('%s is told in the words of EC2', (code, status, answer) => {
  const told = cloudFailure(answered(code, status), 'eu-central-1', plain);
  expect(told).toMatchObject(answer);
  if (told.outcome === 'failed') expect(told.owner_layer).toBe('provider');
  for (const word of [code, 'in its own words', 'eu-central-1']) expect(told.message).toContain(word);
});

it.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'ETIMEDOUT'])('%s is waited for', (code) => {
  expect(cloudFailure(refusal({ code }), 'eu-central-1', plain)).toMatchObject({ outcome: 'wait', retry_seconds: 5 });
});

it('waits longer each time, and not for ever longer', () => {
  const pauses = (code: string) =>
    [0, 1, 2, 3, 4, 50].map((times) => {
      const told = cloudFailure(answered(code), 'eu-central-1', plain, times);
      return told.outcome === 'wait' ? told.retry_seconds : told.outcome;
    });
  expect(pauses('InsufficientInstanceCapacity')).toEqual([15, 30, 60, 120, 120, 120]);
  expect(pauses('RequestLimitExceeded')).toEqual([2, 4, 8, 16, 32, 60]);
});

it('blames the server where it has no account at all', () => {
  const told = cloudFailure(refusal({ name: 'CredentialsProviderError' }), 'eu-central-1', plain);
  expect(told).toMatchObject({ outcome: 'failed', owner_layer: 'control_plane', code: 'ec2_no_credentials' });
});

it('throws on what is a mistake of ours', () => {
  expect(() => cloudFailure(new TypeError('undefined is no machine'), 'eu-central-1', plain)).toThrow(TypeError);
});
