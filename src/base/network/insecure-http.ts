/** Refuses to send credentials in clear text to other hosts, unless explicitly allowed. */
const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** True for a URL that is valid only on the host that uses it. */
export const isLoopbackUrl = (url: string): boolean => loopback.test(new URL(url).hostname);

/** True if anyone on the network path can read the traffic to this URL. */
export const isSentInClear = (url: string): boolean => new URL(url).protocol === 'http:' && !isLoopbackUrl(url);

export const insecureHttpFlag = 'allow-insecure-http';
export const insecureHttpVariable = 'SLIPWAY_ALLOW_INSECURE_HTTP';

export const insecureHttpWhy = 'Anyone on the network path could read the credential and use it.';
export const insecureHttpRemedy = `Use an https:// URL, or accept the risk with --${insecureHttpFlag} (${insecureHttpVariable}=1).`;

export const insecureHttpProblem = (url: string): string =>
  `${url} is on another host and does not use https, so no credential is sent to it. ${insecureHttpWhy} ${insecureHttpRemedy}`;
