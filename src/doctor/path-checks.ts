/**
 * Checks the path to the server layer by layer, with this machine's own resolver, routes and
 * trusted certificates.
 */
import { lookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { trustedCertificates } from '../base/network/trusted-certificates.ts';
import { errorName, faultOfError, pathFaults } from '../contract/errors/path-faults.ts';
import { type DoctorTarget, type ExaminationState, fail, type Outcome, pass } from './examination.ts';

/** Returns the host without the brackets of an IPv6 address. */
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

/** Rejects if `work` takes longer than the time limit of a layer, or if the user interrupts. */
export function withTimeout<T>({ clock, signal, timeout_seconds }: DoctorTarget, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Error('interrupted'));
    const cancel = clock.after(timeout_seconds * 1000, () =>
      reject(new TimedOut(`no result within ${timeout_seconds} s`)),
    );
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => {
      cancel();
      signal.removeEventListener('abort', stop);
    });
  });
}

export async function checkDns(target: DoctorTarget, state: ExaminationState): Promise<Outcome> {
  const host = hostOf(target);
  if (isIP(host)) {
    state.addresses = [host];
    return pass(`${host} is an IP address, so there is no name to resolve`);
  }
  try {
    const answers = await withTimeout(target, lookup(host, { all: true }));
    state.addresses = answers.map(({ address }) => address);
  } catch (error) {
    return fail('dns_unresolved', `${host} does not resolve: ${reasonOf(error)}`);
  }
  return state.addresses.length > 0
    ? pass(`${host} resolves to ${state.addresses.join(', ')}`)
    : fail('dns_unresolved', `${host} has no address`);
}

/** Waits for `connectedEvent`, which the socket emits when it is connected. */
async function waitForConnection<S extends Socket>(
  target: DoctorTarget,
  socket: S,
  connectedEvent: 'connect' | 'secureConnect',
): Promise<S> {
  try {
    await withTimeout(
      target,
      new Promise<void>((resolve, reject) => {
        socket.once(connectedEvent, () => resolve());
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

export async function checkTcp(target: DoctorTarget, state: ExaminationState): Promise<Outcome> {
  const port = portOf(target);
  const failures: unknown[] = [];
  for (const host of state.addresses) {
    try {
      (await waitForConnection(target, connectTcp({ host, port }), 'connect')).destroy();
      state.address = host;
      return pass(`${host} accepts connections on port ${port}`);
    } catch (error) {
      failures.push(error);
    }
  }
  const isRefused = failures.every((error) => errorName(error) === 'ECONNREFUSED');
  return fail(isRefused ? 'tcp_refused' : 'tcp_unreachable', failures.map(reasonOf).join('; '));
}

/** Checks only that a TLS handshake succeeds. The next layer checks the certificate. */
export async function checkTlsHandshake(target: DoctorTarget, state: ExaminationState): Promise<Outcome> {
  const host = hostOf(target);
  const socket = connectTls({
    host: state.address ?? host,
    port: portOf(target),
    ...(isIP(host) ? {} : { servername: host }),
    ca: trustedCertificates(target.ca),
    // This connection may go to an untrusted server, because nothing is sent over it.
    rejectUnauthorized: false,
  });
  try {
    const secured: TLSSocket = await waitForConnection(target, socket, 'secureConnect');
    const distrust: unknown = secured.authorizationError;
    state.distrust = secured.authorized ? null : distrust instanceof Error ? reasonOf(distrust) : String(distrust);
    const protocol = secured.getProtocol();
    secured.destroy();
    return pass(`the server uses ${protocol}`);
  } catch (error) {
    return fail('tls_failed', reasonOf(error));
  }
}

export async function checkCertificate({ ca }: DoctorTarget, { distrust }: ExaminationState): Promise<Outcome> {
  if (distrust === null) return pass(ca === null ? 'the certificate is trusted' : 'the certificate is trusted by --ca');
  const code = faultOfError(distrust);
  return fail(
    pathFaults[code].detail_layer === 'ca' ? code : 'ca_untrusted',
    `the certificate is not trusted: ${distrust}`,
  );
}
