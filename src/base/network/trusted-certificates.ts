/** Which authorities a connection trusts: the usual ones, and one more where somebody named it. */
import * as tls from 'node:tls';

/** What Node trusts by itself, with what its own variables add; older releases can only tell the list they ship. */
const usual = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates;

/** Undefined leaves it to Node; a list replaces its own, so the usual ones are in it. */
export const trustedWith = (ca: string | null): string[] | undefined => (ca === null ? undefined : [...usual(), ca]);
