import { expect, it } from 'vitest';
import { redactionMark } from '../../../base/redaction/redact.ts';
import { createRedact } from './redact.ts';

const secret = 'Q~planted+secret/of=the-account';

it.each([
  ['the secret', `invalid_client: ${secret} is wrong`, `invalid_client: ${redactionMark} is wrong`],
  ['the secret in a form', `client_secret=${encodeURIComponent(secret)}&x=1`, `client_secret=${redactionMark}&x=1`],
  [
    'the signature in the address of an operation',
    'poll https://management.azure.com/subscriptions/s/operations/o?api-version=1&t=638&c=MII&s=abc&h=def for it',
    `poll https://management.azure.com/subscriptions/s/operations/o?${redactionMark} for it`,
  ],
  [
    'the same without its host',
    'GET /subscriptions/s/operations/o?t=1&c=2&s=3&h=4 gave 400',
    `GET /subscriptions/s/operations/o?${redactionMark} gave 400`,
  ],
  ['a token that was never seen here', 'Bearer eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl', `Bearer ${redactionMark}`],
])('redacts %s', (_, text, left) => {
  expect(createRedact([secret, undefined])(text)).toBe(left);
});

it("redacts tokens as they are learned, and always the account's secrets", () => {
  const redact = createRedact([secret]);
  for (let each = 0; each < 100; each++) redact.learn(`opaque-token-number-${each}!`);
  expect(redact(`${secret} opaque-token-number-99!`)).toBe(`${redactionMark} ${redactionMark}`);
});

it.each(['AKS state: Creating · ARM 1m 40s', 'what is this? nothing', 'see https://aka.ms/aks-pending-operation'])(
  'leaves %s unchanged',
  (text) => {
    expect(createRedact([secret])(text)).toBe(text);
  },
);
