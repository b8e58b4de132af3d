/**
 * The part of the error catalogue about people and programs that call the API: tokens, sessions,
 * roles and origins. Join tokens and the credentials of agents are in agent-errors.ts.
 */
export const callerErrors = {
  token_missing: {
    status: 401,
    title: 'Token required',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'The request has no bearer token and no session.',
    remedy: 'Send `Authorization: Bearer …` or sign in.',
  },
  token_unknown: {
    status: 401,
    title: 'Unknown token',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'The token was mistyped, revoked, or belongs to another installation.',
    remedy: 'Use a valid token; an admin can create one.',
  },
  token_expired: {
    status: 401,
    title: 'This token has expired',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'The token was valid only until its expiry time.',
    remedy: 'Ask an admin for a new one, or sign in again.',
  },
  too_many_failures: {
    status: 429,
    title: 'Too many wrong tokens from this IP address',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause:
      'This IP address sent too many unknown tokens. Each failure after the wait doubles the next wait. A valid token works at once.',
    remedy: 'Check the token, wait `retry_after_seconds`, then try again.',
  },
  role_insufficient: {
    status: 403,
    title: 'Insufficient role',
    owner_layer: 'auth',
    cause: 'The call needs a higher role.',
    remedy: 'Use a token with the role named in `detail`.',
  },
  scope_insufficient: {
    status: 403,
    title: 'Outside the scope of the token',
    owner_layer: 'auth',
    cause:
      'A tenant token called a route that is not for tenants, or a relay token sent heartbeats for a machine of another pool.',
    remedy: 'Use a token for all tenants. A relay needs a token for the pool of its machines.',
  },
  origin_refused: {
    status: 403,
    title: 'The request came from another origin',
    owner_layer: 'auth',
    detail_layer: 'ingress',
    cause: 'Origin or Host does not match this server.',
    remedy:
      "Open the console at the server's own URL. Behind a proxy, forward the Host header and list the proxy in --trusted-proxies.",
  },
  host_bound_pool_refused: {
    status: 403,
    title: 'This server does not allow pools that run commands on its host',
    owner_layer: 'auth',
    cause:
      "The server listens beyond loopback and was not started with --allow-local-driver, or the token is not an admin's.",
    remedy: 'Start the server with --allow-local-driver if this is intended, and declare the pool as admin.',
  },
} as const;
