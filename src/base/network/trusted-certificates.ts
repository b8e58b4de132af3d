/**
 * The certificate authorities that a connection trusts: the default ones, plus an optional extra
 * one.
 */
import * as tls from 'node:tls';

/**
 * Node's default authorities, including those from its environment variables; older releases only
 * list the bundled ones.
 */
const defaults = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates;

/**
 * Undefined leaves the choice to Node. A list replaces Node's own, so it includes the default ones.
 */
export const trustedWith = (ca: string | null): string[] | undefined => (ca === null ? undefined : [...defaults(), ca]);
