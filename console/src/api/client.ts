/**
 * The typed client. The session is in a cookie that scripts cannot read, so no token is kept here.
 */
import { systemClock } from '../../../src/base/clock.ts';
import { type CallInput, createClient } from '../../../src/contract/client.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { routes } from './routes.generated.ts';
import { noteServerDate } from './server-clock.ts';

const fetchAndNoteTime: typeof fetch = async (input, init) => {
  const sentMs = systemClock.nowMs();
  const reply = await fetch(input, { ...init, credentials: 'same-origin' });
  noteServerDate(reply.headers.get('date'), sentMs, systemClock.nowMs());
  return reply;
};

const client = createClient({ base_url: '', addresses: routes, fetch: fetchAndNoteTime, retries: 1 });

export const call = client.call;
export const urlOf = client.url;

/** A mutating call. Its idempotency key makes it take effect once, even if it is sent again. */
export const act = <Name extends OperationName>(name: Name, input: CallInput<Name>) =>
  client.call(name, { idempotency_key: newKey(), ...input });

export type BodyOf<Name extends OperationName> = NonNullable<CallInput<Name>['body']>;

/**
 * Returns a function that gives equal bodies the same idempotency key and other bodies another one.
 * For a form that may be sent again, changed or not.
 */
export function keyPerBody(): (body: object) => string {
  const keyByBody = new Map<string, string>();
  return (body) => {
    const text = JSON.stringify(body);
    const key = keyByBody.get(text) ?? newKey();
    keyByBody.set(text, key);
    return key;
  };
}

/**
 * Avoids `crypto.randomUUID`: browsers offer it only in secure contexts, and the console also runs
 * over plain HTTP.
 */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
