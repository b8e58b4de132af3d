/** What the exit status of every command means; `--help` and docs/reference/cli.md are made from this table. */

export const exitCodes = {
  ok: { code: 0, means: 'It worked.' },
  failed: {
    code: 1,
    means:
      'It was tried and failed: an allocation, a release, an operation, the server itself; or nothing is known about that id; or the store is not what its evidence says.',
  },
  usage: { code: 2, means: 'The command line, a file or a setting is wrong; nothing was sent.' },
  unreachable: { code: 3, means: 'No Slipway server answered, or it is not ready to.' },
  refused: { code: 4, means: 'The server answered no: not allowed, not found, or not in this state.' },
  timed_out: { code: 5, means: '--timeout-wait passed first; what was waited for goes on.' },
  interrupted: { code: 130, means: 'Ctrl-C ended the waiting; what was waited for goes on.' },
} as const;

export type ExitName = keyof typeof exitCodes;
