/** Headers of replies. */
import type { IncomingMessage } from 'node:http';

/** What every reply carries, whichever way it was made. */
export const everyReply = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

/** Where TLS is on, here or at the proxy in front: browsers then use nothing else for a year. */
export const onlyOverTls = { 'strict-transport-security': 'max-age=31536000' } as const;

/** On `localhost` it would hold for whatever else a developer runs there, on any port. */
export const isNamedHost = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  !/^localhost(:\d+)?$/i.test(headers.host ?? '');
