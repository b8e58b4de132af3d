/** The way to the server, one layer at a time, by this machine's own resolver, routes and trust. */
import { lookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { trustedWith } from '../base/network/trusted-certificates.ts';
import { errorName, faultOfError, pathFaults } from '../contract/errors/path-faults.ts';
import { type Found, failed, type Outcome, type Patient, well } from './examination.ts';

/** Without the brackets of an IPv6 address. */
export const hostOf = ({ url }: Pick<Patient, 'url'>) => url.hostname.replace(/^\[|\]$/g, '');
export const portOf = ({ url }: Pick<Patient, 'url'>) => Number(url.port) || (url.protocol === 'https:' ? 443 : 80);

/**
 * OpenSSL wraps its words in numbers and in the lines of its own source: of
 * `…:error:…:routines:function:words:file:…` only the words help.
 */
const ofOpenSsl = /:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):/;
const words = (error: unknown) => {
  const text = error instanceof Error ? error.message : String(error);
  return ofOpenSsl.exec(text)?.[1] ?? text;
};

class TooLong extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Fails what takes longer than a layer may, or what somebody no longer waits for. */
export function within<T>({ clock, signal, patience_seconds }: Patient, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Error('interrupted'));
    const cancel = clock.after(patience_seconds * 1000, () =>
      reject(new TooLong(`nothing came of it within ${patience_seconds} s`)),
    );
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => {
      cancel();
      signal.removeEventListener('abort', stop);
    });
  });
}

export async function resolveName(patient: Patient, found: Found): Promise<Outcome> {
  const host = hostOf(patient);
  if (isIP(host)) {
    found.addresses = [host];
    return well(`${host} is an address; there is no name to resolve`);
  }
  try {
    const answers = await within(patient, lookup(host, { all: true }));
    found.addresses = answers.map(({ address }) => address);
  } catch (error) {
    return failed('dns_unresolved', `${host} does not resolve: ${words(error)}`);
  }
  return found.addresses.length > 0
    ? well(`${host} is ${found.addresses.join(', ')}`)
    : failed('dns_unresolved', `${host} has no address`);
}

/** `opened` is the event by which the socket says that it is there. */
async function reached<S extends Socket>(patient: Patient, socket: S, opened: 'connect' | 'secureConnect'): Promise<S> {
  try {
    await within(
      patient,
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

export async function openConnection(patient: Patient, found: Found): Promise<Outcome> {
  const port = portOf(patient);
  const failures: unknown[] = [];
  for (const host of found.addresses) {
    try {
      (await reached(patient, connectTcp({ host, port }), 'connect')).destroy();
      found.address = host;
      return well(`${host} takes connections on port ${port}`);
    } catch (error) {
      failures.push(error);
    }
  }
  const refused = failures.every((error) => errorName(error) === 'ECONNREFUSED');
  return failed(refused ? 'tcp_refused' : 'tcp_unreachable', failures.map(words).join('; '));
}

/**
 * Whether TLS comes about at all; whether its certificate is worth anything is the next question.
 */
export async function agreeOnTls(patient: Patient, found: Found): Promise<Outcome> {
  const host = hostOf(patient);
  const socket = connectTls({
    host: found.address ?? host,
    port: portOf(patient),
    ...(isIP(host) ? {} : { servername: host }),
    ca: trustedWith(patient.ca),
    // Nothing is said over this connection.
    rejectUnauthorized: false,
  });
  try {
    const secured: TLSSocket = await reached(patient, socket, 'secureConnect');
    const distrust: unknown = secured.authorizationError;
    found.distrust = secured.authorized ? null : distrust instanceof Error ? words(distrust) : String(distrust);
    const spoken = secured.getProtocol();
    secured.destroy();
    return well(`it speaks ${spoken}`);
  } catch (error) {
    return failed('tls_failed', words(error));
  }
}

export async function trustCertificate({ ca }: Patient, { distrust }: Found): Promise<Outcome> {
  if (distrust === null)
    return well(ca === null ? 'its certificate is trusted' : 'its certificate is trusted, by --ca');
  const code = faultOfError(distrust);
  return failed(
    pathFaults[code].detail_layer === 'ca' ? code : 'ca_untrusted',
    `its certificate is refused: ${distrust}`,
  );
}
