import { expect, it } from 'vitest';
import { redactionMark } from '../../../base/redaction/redact.ts';
import { createRedact } from './redact.ts';

const secret = 'Q~planted+secret/of=the-account';

it.each([
  ['the client secret', `invalid_client: ${secret} is wrong`, `invalid_client: ${redactionMark} is wrong`],
  [
    'the client secret in a form body',
    `client_secret=${encodeURIComponent(secret)}&x=1`,
    `client_secret=${redactionMark}&x=1`,
  ],
  [
    'the signature in the URL of an operation',
    'poll https://management.azure.com/subscriptions/s/operations/o?api-version=1&t=638&c=MII&s=abc&h=def for it',
    `poll https://management.azure.com/subscriptions/s/operations/o?${redactionMark} for it`,
  ],
  [
    'the signature in a URL without a host',
    'GET /subscriptions/s/operations/o?t=1&c=2&s=3&h=4 gave 400',
    `GET /subscriptions/s/operations/o?${redactionMark} gave 400`,
  ],
  ['a bearer token that was not learned', 'Bearer eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl', `Bearer ${redactionMark}`],
])('redacts %s', (_, text, redacted) => {
  expect(createRedact([secret, undefined])(text)).toBe(redacted);
});

it("redacts the latest token and the account's secret after 100 learned tokens", () => {
  const redact = createRedact([secret]);
  for (let index = 0; index < 100; index++) redact.learn(`opaque-token-number-${index}!`);
  expect(redact(`${secret} opaque-token-number-99!`)).toBe(`${redactionMark} ${redactionMark}`);
});

it('forgets the oldest tokens first, also if some secrets of the account are not set', () => {
  const redact = createRedact([undefined, undefined, undefined]);
  for (let index = 0; index < 33; index++) redact.learn(`opaque-token-number-${index}!`);
  expect(redact('opaque-token-number-0! opaque-token-number-3!')).toBe(`opaque-token-number-0! ${redactionMark}`);
});

it.each(['AKS state: Creating · for 1m 40s', 'what is this? nothing', 'see https://aka.ms/aks-pending-operation'])(
  'leaves %s unchanged',
  (text) => {
    expect(createRedact([secret])(text)).toBe(text);
  },
);
