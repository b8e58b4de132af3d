/**
 * The part of the error catalogue that asks a caller to retry later, with
 * `retry_after_seconds`.
 */
export const limitErrors = {
  logs_slow_down: {
    status: 429,
    title: 'Send these log lines later',
    owner_layer: 'control_plane',
    cause: 'Too many log lines wait to be stored, or other batches of this node are still in progress.',
    remedy: 'Keep the lines, wait `retry_after_seconds`, then send them again. An agent does so by itself.',
  },
  server_busy: {
    status: 429,
    title: 'Server overloaded',
    owner_layer: 'control_plane',
    cause:
      'The server receives more than it can store, so it refuses lists. Heartbeats, Attention and requests for a single item are still served.',
    remedy: 'Wait `retry_after_seconds`, then repeat. If it persists, add a replica; `/metrics` shows the cause.',
  },
  resources_short: {
    status: 503,
    title: 'Server short of resources',
    owner_layer: 'control_plane',
    cause:
      'The server is short of memory, file descriptors, database connections or disk space, so it starts nothing new. Heartbeats and requests for a single item are still served.',
    remedy:
      'Wait `retry_after_seconds`, then repeat. If it persists, `slipway status` names what is short and what to do.',
  },
  write_limit_reached: {
    status: 429,
    title: 'Write limit reached',
    owner_layer: 'request',
    detail_layer: 'limits',
    cause:
      'This machine, tenant, join token or IP address has used its write allowance, or has too many writes in progress.',
    remedy:
      'Wait `retry_after_seconds`, then repeat. Send fewer requests at once, report less often, or raise `limits` in the settings file of the server.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    owner_layer: 'control_plane',
    cause:
      'The caller sent too many requests or unknown credentials, or a limit on open streams, log searches, request bodies or probes is reached. `detail` says which.',
    remedy: 'Wait `retry_after_seconds`, then repeat.',
  },
} as const;
