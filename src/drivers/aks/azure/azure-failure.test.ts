/** Tests how the driver answers Azure's errors, with the codes and messages that Azure sends. */
import { describe, expect, it } from 'vitest';
import { azureFailure } from './azure-failure.ts';

const now_ms = Date.UTC(2026, 0, 1);

interface AzureReply {
  status: number;
  code?: string;
  message?: string;
  retry_after?: string;
}

/** Builds an error as the SDKs throw it. */
const sdkError = ({ status, code, message = 'because', retry_after }: AzureReply) =>
  Object.assign(new Error(message), {
    name: 'RestError',
    statusCode: status,
    ...(code && { code }),
    response: { headers: new Headers(retry_after ? { 'retry-after': retry_after } : {}) },
  });

const answerTo = (error: unknown) => azureFailure(error, { redact: (text) => text, now_ms, phase: 'some_phase' });

describe('waits and retries', () => {
  it.each<[AzureReply, number]>([
    [{ status: 429, code: 'TooManyRequests', retry_after: '17' }, 17],
    [{ status: 429, code: 'SubscriptionRequestsThrottled' }, 5],
    [
      {
        status: 409,
        code: 'OperationNotAllowed',
        message: 'Another operation (Creating) is in progress',
        retry_after: '30',
      },
      30,
    ],
    [{ status: 409, code: 'OperationInProgress' }, 10],
    [{ status: 409, code: 'AnotherOperationInProgress' }, 10],
    [{ status: 409, code: 'ResourceGroupBeingDeleted' }, 10],
    [
      { status: 409, code: 'ResourceGroupDeletionBlocked', message: 'another operation (Creating) is in progress.' },
      10,
    ],
    [{ status: 412, code: 'PreconditionFailed' }, 10],
    [{ status: 400, code: 'PrincipalNotFound' }, 10],
    [{ status: 500, code: 'InternalServerError' }, 5],
    [{ status: 502 }, 5],
    [{ status: 503, code: 'ServerTimeout', retry_after: 'Thu, 01 Jan 2026 00:00:40 GMT' }, 40],
    [{ status: 503, retry_after: '86400' }, 3600],
  ])('after %j, in %d s', (reply, retry_seconds) => {
    expect(answerTo(sdkError(reply))).toMatchObject({ outcome: 'wait', retry_seconds, phase: 'some_phase' });
  });

  it.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'REQUEST_SEND_ERROR'])('after %s', (code) => {
    expect(answerTo(Object.assign(new Error('unavailable'), { code }))).toMatchObject({ outcome: 'wait' });
  });

  it('after a sign-in that got no answer', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    const error = Object.assign(new Error('network_error', { cause }), { name: 'AuthenticationRequiredError' });
    expect(answerTo(error)).toMatchObject({ outcome: 'wait' });
  });
});

describe('fails', () => {
  it.each<[AzureReply, boolean]>([
    [{ status: 400, code: 'ErrCode_InsufficientVCPUQuota' }, true],
    [{ status: 409, code: 'OperationNotAllowed', message: 'exceeding approved Total Regional Cores quota' }, true],
    [{ status: 409, code: 'QuotaExceeded' }, true],
    [{ status: 409, code: 'PublicIPCountLimitReached' }, true],
    [{ status: 409, code: 'AllocationFailed' }, true],
    [{ status: 409, code: 'OverconstrainedAllocationRequest' }, true],
    [{ status: 409, code: 'SkuNotAvailable' }, false],
    [{ status: 400, code: 'VMSizeNotSupported' }, false],
    [{ status: 400, code: 'K8sVersionNotSupported' }, false],
    [{ status: 400, code: 'InvalidParameter' }, false],
    [{ status: 403, code: 'RequestDisallowedByPolicy' }, false],
    [{ status: 403, code: 'AuthorizationFailed' }, true],
    [{ status: 403, code: 'LinkedAuthorizationFailed' }, true],
    [{ status: 401, code: 'ExpiredAuthenticationToken' }, true],
    [{ status: 409, code: 'MissingSubscriptionRegistration' }, true],
    [{ status: 409, code: 'ScopeLocked' }, true],
    [{ status: 404, code: 'SubscriptionNotFound' }, false],
  ])('after %j, retryable: %s', (reply, retryable) => {
    const { code } = reply;
    const answer = { outcome: 'failed', owner_layer: 'provider', code, retryable, phase: 'some_phase' };
    expect(answerTo(sdkError({ message: 'the message', ...reply }))).toMatchObject(answer);
  });

  it('after Azure refused the client secret', () => {
    const error = Object.assign(new Error('AADSTS7000215: Invalid client secret'), {
      name: 'AuthenticationError',
      statusCode: 401,
    });
    expect(answerTo(error)).toMatchObject({ outcome: 'failed', code: 'azure_sign_in_failed', retryable: true });
  });

  it('with the messages of the error and all inner errors', () => {
    const details = {
      error: { code: 'Outer', message: 'It failed.', details: [{ code: 'Inner', message: 'The subnet is full.' }] },
    };
    const error = Object.assign(sdkError({ status: 400, code: 'Outer' }), { details });
    expect(answerTo(error).message).toContain('Outer: It failed. The subnet is full.');
  });
});

it('rethrows an error that did not come from Azure', () => {
  expect(() => answerTo(new TypeError('undefined is not a function'))).toThrow('undefined is not a function');
});
