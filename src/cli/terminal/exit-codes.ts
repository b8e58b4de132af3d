/** The meaning of each exit status, also shown by `--help` and docs/reference/cli.md. */

export const exitCodes = {
  ok: { code: 0, means: 'Success.' },
  failed: {
    code: 1,
    means:
      'Failure: an allocation, a release, an operation or the server failed, the id is unknown, the store differs from its evidence, or the server has problems (`slipway status`).',
  },
  usage: { code: 2, means: 'Usage error: the command line, a file or a setting is invalid. Nothing was changed.' },
  unreachable: { code: 3, means: 'No Slipway server answered, or it is not ready.' },
  refused: { code: 4, means: 'The server refused the call: not allowed, not found, or not possible in this state.' },
  timed_out: { code: 5, means: 'The time of --timeout-wait passed. The operation continues on the server.' },
  not_ready: {
    code: 6,
    means: 'The server answers but is not ready, for example because its database is away (`slipway status`).',
  },
  interrupted: { code: 130, means: 'Ctrl-C stopped the wait. The operation continues on the server.' },
} as const;

export type ExitName = keyof typeof exitCodes;
