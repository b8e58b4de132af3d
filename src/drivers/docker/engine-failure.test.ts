/** How an engine's refusal is answered: its owner, and whether a retry can help. */
import { expect, it } from 'vitest';
import { engineFailure } from './engine-failure.ts';

const refusal = (facts: object, message = 'as the client says it') => Object.assign(new Error(message), facts);
const plain = (text: string) => text;

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
])('answers %o with %o', (facts, answer) => {
  const failure = engineFailure(
    refusal({ ...facts, json: { message: 'in its own words' } }),
    'unix:///engine.sock',
    plain,
  );
  expect(failure).toMatchObject(answer);
  expect(failure.message).toContain('in its own words');
  expect(failure.message).toContain('unix:///engine.sock');
});

it('rethrows a bug of ours', () => {
  expect(() => engineFailure(new TypeError('undefined is not a container'), 'unix:///engine.sock', plain)).toThrow(
    TypeError,
  );
});

it("redacts secrets from the engine's message", () => {
  const redacted = engineFailure(refusal({ statusCode: 500 }, 'no such key: abc'), 'a', (text) =>
    text.replace('abc', '…'),
  );
  expect(redacted.message).not.toContain('abc');
});
