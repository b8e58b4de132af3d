/** Credentials are not sent in the clear to other hosts, unless somebody says that they may. */
const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** An address that means something only on the host that says it. */
export const isLoopbackUrl = (address: string): boolean => loopback.test(new URL(address).hostname);

/** Whoever is on the way to this address can read what is sent there. */
export const isSentInClear = (address: string): boolean =>
  new URL(address).protocol === 'http:' && !isLoopbackUrl(address);

export const insecureHttpFlag = 'allow-insecure-http';
export const insecureHttpVariable = 'SLIPWAY_ALLOW_INSECURE_HTTP';

export const insecureHttpWhy = 'Everybody on the way could read the credential and use it.';
export const insecureHttpRemedy = `Use an https:// address, or accept the risk with --${insecureHttpFlag} (${insecureHttpVariable}=1).`;

export const insecureHttpProblem = (address: string): string =>
  `${address} is another host and not https, so no credential is sent there. ${insecureHttpWhy} ${insecureHttpRemedy}`;
