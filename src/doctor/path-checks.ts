/**
 * Checks the path to the server layer by layer, with this machine's own resolver, routes and
 * trusted certificates.
 */
import { lookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { trustedWith } from '../base/network/trusted-certificates.ts';
import { errorName, faultOfError, pathFaults } from '../contract/errors/path-faults.ts';
import { type DoctorTarget, type Found, failed, type Outcome, well } from './examination.ts';

/** Without the brackets of an IPv6 address. */
export const hostOf = ({ url }: Pick<DoctorTarget, 'url'>) => url.hostname.replace(/^\[|\]$/g, '');
export const portOf = ({ url }: Pick<DoctorTarget, 'url'>) =>
  Number(url.port) || (url.protocol === 'https:' ? 443 : 80);

/** Extracts the reason from an OpenSSL message: `…:error:…:routines:function:reason:file:…`. */
const openSslReason = /:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):/;
const reasonOf = (error: unknown) => {
  const text = error instanceof Error ? error.message : String(error);
  return openSslReason.exec(text)?.[1] ?? text;
};

class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Rejects if `work` takes longer than a layer may, or if the examination is interrupted. */
export function within<T>({ clock, signal, timeout_seconds }: DoctorTarget, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Error('interrupted'));
    const cancel = clock.after(timeout_seconds * 1000, () =>
      reject(new TimedOut(`nothing came of it within ${timeout_seconds} s`)),
    );
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => {
      cancel();
      signal.removeEventListener('abort', stop);
    });
  });
}

export async function resolveName(target: DoctorTarget, found: Found): Promise<Outcome> {
  const host = hostOf(target);
  if (isIP(host)) {
    found.addresses = [host];
    return well(`${host} is an address; there is no name to resolve`);
  }
  try {
    const answers = await within(target, lookup(host, { all: true }));
    found.addresses = answers.map(({ address }) => address);
  } catch (error) {
    return failed('dns_unresolved', `${host} does not resolve: ${reasonOf(error)}`);
  }
  return found.addresses.length > 0
    ? well(`${host} is ${found.addresses.join(', ')}`)
    : failed('dns_unresolved', `${host} has no address`);
}

/** `opened` is the event that signals that the socket is connected. */
async function reached<S extends Socket>(
  target: DoctorTarget,
  socket: S,
  opened: 'connect' | 'secureConnect',
): Promise<S> {
  try {
    await within(
      target,
      new Promise<void>((resolve, reject) => {
        socket.once(opened, () => resolve());
        socket.once('error', reject);
        socket.once('close', () => reject(new Error('the connection was closed')));
      }),
    );
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

export async function openConnection(target: DoctorTarget, found: Found): Promise<Outcome> {
  const port = portOf(target);
  const failures: unknown[] = [];
  for (const host of found.addresses) {
    try {
      (await reached(target, connectTcp({ host, port }), 'connect')).destroy();
      found.address = host;
      return well(`${host} takes connections on port ${port}`);
    } catch (error) {
      failures.push(error);
    }
  }
  const refused = failures.every((error) => errorName(error) === 'ECONNREFUSED');
  return failed(refused ? 'tcp_refused' : 'tcp_unreachable', failures.map(reasonOf).join('; '));
}

/** Checks only that a TLS handshake succeeds; the certificate is checked by the next layer. */
export async function agreeOnTls(target: DoctorTarget, found: Found): Promise<Outcome> {
  const host = hostOf(target);
  const socket = connectTls({
    host: found.address ?? host,
    port: portOf(target),
    ...(isIP(host) ? {} : { servername: host }),
    ca: trustedWith(target.ca),
    // Safe because nothing is sent over this connection.
    rejectUnauthorized: false,
  });
  try {
    const secured: TLSSocket = await reached(target, socket, 'secureConnect');
    const distrust: unknown = secured.authorizationError;
    found.distrust = secured.authorized ? null : distrust instanceof Error ? reasonOf(distrust) : String(distrust);
    const spoken = secured.getProtocol();
    secured.destroy();
    return well(`it speaks ${spoken}`);
  } catch (error) {
    return failed('tls_failed', reasonOf(error));
  }
}

export async function trustCertificate({ ca }: DoctorTarget, { distrust }: Found): Promise<Outcome> {
  if (distrust === null)
    return well(ca === null ? 'its certificate is trusted' : 'its certificate is trusted, by --ca');
  const code = faultOfError(distrust);
  return failed(
    pathFaults[code].detail_layer === 'ca' ? code : 'ca_untrusted',
    `its certificate is refused: ${distrust}`,
  );
}
