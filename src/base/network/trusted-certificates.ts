/**
 * Lists the certificate authorities that a connection trusts: the default ones and an optional
 * extra one.
 */
import * as tls from 'node:tls';

/**
 * Returns Node's default authorities, including those from its environment variables. Older
 * releases of Node only list the bundled ones.
 */
const defaults = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates;

/**
 * Returns undefined to leave the choice to Node. A list replaces Node's own list, so it includes
 * the default authorities.
 */
export const trustedCertificates = (ca: string | null): string[] | undefined =>
  ca === null ? undefined : [...defaults(), ca];
