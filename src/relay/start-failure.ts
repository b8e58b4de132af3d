/** Explains why a relay could not start, and what to do about it. */

const byCode: Record<string, (at: string) => string> = {
  EADDRINUSE: (at) =>
    `something else listens at ${at} already, perhaps another relay.\n  Stop that, or give this one another --port and name it in --server of its agents.`,
  EADDRNOTAVAIL: (at) =>
    `${at} is no address of this machine.\n  Give as --host one that it has; 127.0.0.1 is reached from this machine alone.`,
  EACCES: (at) =>
    `this user may not listen at ${at}.\n  Choose a --port from 1024 on, or let the user listen below that.`,
};

export function describeStartFailure(error: Error, { host, port }: { host: string; port: number }): string {
  const code = 'code' in error ? String(error.code) : '';
  const words = 'syscall' in error && error.syscall === 'listen' ? byCode[code] : undefined;
  return words?.(`${host.includes(':') ? `[${host}]` : host}:${port}`) ?? error.message;
}
