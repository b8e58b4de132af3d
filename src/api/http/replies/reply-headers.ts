import type { IncomingMessage } from 'node:http';

/** Headers of every reply, whichever code path sends it. */
export const commonHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

/** Sent if TLS is on, here or at the proxy: browsers then use only TLS for a year. */
export const hstsHeader = { 'strict-transport-security': 'max-age=31536000' } as const;

/** HSTS on `localhost` would break other servers that a developer runs there, on any port. */
export const isNamedHost = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  !/^localhost(:\d+)?$/i.test(headers.host ?? '');
