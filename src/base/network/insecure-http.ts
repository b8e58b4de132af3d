/** Refuses to send credentials in clear text to other hosts, unless explicitly allowed. */
const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** True for an address that is valid only on the host that uses it. */
export const isLoopbackUrl = (address: string): boolean => loopback.test(new URL(address).hostname);

/** True if anyone on the network path can read the traffic to this address. */
export const isSentInClear = (address: string): boolean =>
  new URL(address).protocol === 'http:' && !isLoopbackUrl(address);

export const insecureHttpFlag = 'allow-insecure-http';
export const insecureHttpVariable = 'SLIPWAY_ALLOW_INSECURE_HTTP';

export const insecureHttpWhy = 'Anyone on the network path could read the credential and use it.';
export const insecureHttpRemedy = `Use an https:// address, or accept the risk with --${insecureHttpFlag} (${insecureHttpVariable}=1).`;

export const insecureHttpProblem = (address: string): string =>
  `${address} is another host and not https, so no credential is sent there. ${insecureHttpWhy} ${insecureHttpRemedy}`;
