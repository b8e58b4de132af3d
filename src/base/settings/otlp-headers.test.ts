import { expect, test } from 'vitest';
import { readOtlpHeaders } from './otlp-headers.ts';

const read = (given?: string) => readOtlpHeaders(given, (reason) => new Error(reason));

test('reads names and percent-encoded values', () => {
  expect(read()).toEqual({});
  expect(read('')).toEqual({});
  expect(read('Authorization=Basic%20dXNlcjpwYXNz==, X-Scope-OrgID = one%2Ctwo,')).toEqual({
    authorization: 'Basic dXNlcjpwYXNz==',
    'x-scope-orgid': 'one,two',
  });
});

test.each(['no-value', '=hunter2', 'a b=hunter2', 'key=hunter2%0d%0aevil: 1', 'key=hunter2%'])(
  'refuses %s, and does not repeat it',
  (entry) => {
    expect(() => read(`a=1,${entry}`)).toThrow(/^SLIPWAY_OTLP_HEADERS: entry 2 is not name=value/);
    expect(() => read(`a=1,${entry}`)).not.toThrow(/hunter2/);
  },
);
