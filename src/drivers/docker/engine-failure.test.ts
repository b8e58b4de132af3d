/** Tests which outcome, owner and retry an error of the container engine leads to. */
import { expect, it } from 'vitest';
import { engineFailure } from './engine-failure.ts';

const errorWith = (facts: object, message = 'message of the client') => Object.assign(new Error(message), facts);
const keepText = (text: string) => text;

it.each([
  [{ code: 'ECONNREFUSED' }, { outcome: 'wait' }],
  [{ code: 'ENOENT' }, { outcome: 'wait' }],
  [{ code: 'ECONNRESET' }, { outcome: 'wait' }],
  [{ statusCode: 503 }, { outcome: 'wait' }],
  [{ statusCode: 429 }, { outcome: 'wait' }],
  [{ code: 'EACCES' }, { outcome: 'failed', code: 'engine_permission_denied', retryable: true }],
  [{ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, { outcome: 'failed', code: 'engine_error', retryable: true }],
  [{ statusCode: 500 }, { outcome: 'failed', code: 'engine_error', retryable: true }],
  [{ statusCode: 400 }, { outcome: 'failed', code: 'engine_refused_spec', retryable: false }],
])('turns an error with %o into %o', (facts, expected) => {
  const failure = engineFailure(
    errorWith({ ...facts, json: { message: 'message of the engine' } }),
    'unix:///engine.sock',
    keepText,
  );
  expect(failure).toMatchObject(expected);
  expect(failure.message).toContain('message of the engine');
  expect(failure.message).toContain('unix:///engine.sock');
});

it('rethrows an error that is a bug in the driver', () => {
  expect(() => engineFailure(new TypeError('undefined is not a container'), 'unix:///engine.sock', keepText)).toThrow(
    TypeError,
  );
});

it("redacts secrets from the engine's message", () => {
  const redacted = engineFailure(errorWith({ statusCode: 500 }, 'no such key: abc'), 'a', (text) =>
    text.replace('abc', '…'),
  );
  expect(redacted.message).not.toContain('abc');
});
