/**
 * Sends one GET to one address that the policy has allowed. Resolves no name, follows no redirect
 * and closes its connection.
 */
import { request as httpRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { hostOf } from './probe-url.ts';

export type Reply =
  | { got: 'status'; status: number }
  | { got: 'too_much' }
  | { got: 'no_time' }
  /** The connection failed, so another address of the same name may still work. */
  | { got: 'no_connection'; why: string; refused: boolean }
  | { got: 'no_answer'; why: string };

export interface GetLimits {
  clock: Clock;
  /** Aborted at the timeout of the whole probe. */
  signal: AbortSignal;
  /** The time limit for connecting, set if there are other addresses to try. */
  connect_ms: number | undefined;
}

/** The limit on headers and body together. */
export const max_bytes = 64 * 1024;

export const isSuccess = (status: number) => status >= 200 && status < 300;

const describeError = ({ code, message }: NodeJS.ErrnoException) =>
  code === 'ECONNRESET' ? 'the server closed the connection without an answer' : message;

function optionsFor(url: URL, address: string): RequestOptions & { servername: string } {
  const name = hostOf(url);
  return {
    // Connect to the checked address, so that no second lookup can return another (DNS rebinding).
    host: address,
    port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port,
    path: url.pathname + url.search,
    // The name for SNI and the certificate check has no trailing dot, and is empty for an address.
    servername: isIP(name) ? '' : name.replace(/\.$/, ''),
    headers: { host: url.host, accept: '*/*', 'user-agent': 'slipway-probe' },
    // Use a new connection, so that no session is shared with another probe.
    agent: false,
    maxHeaderSize: max_bytes,
  };
}

export function getAddress(url: URL, address: string, { clock, signal, connect_ms }: GetLimits): Promise<Reply> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve({ got: 'no_time' });
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = open(optionsFor(url, address));
    let isConnected = false;
    let bytes = 0;

    const end = (reply: Reply) => {
      cancelConnect();
      signal.removeEventListener('abort', onTimeout);
      request.destroy();
      resolve(reply);
    };
    const fail = (why: string, refused = false) =>
      end(isConnected ? { got: 'no_answer', why } : { got: 'no_connection', why, refused });
    const onTimeout = () => end({ got: 'no_time' });
    const cancelConnect =
      connect_ms === undefined
        ? () => {}
        : clock.after(connect_ms, () => fail(`${address} does not accept connections`));
    signal.addEventListener('abort', onTimeout, { once: true });

    request.on('socket', (socket) => {
      socket.once('connect', () => {
        isConnected = true;
        cancelConnect();
      });
      // Count at the socket, so that interim responses, chunk headers and trailers count too.
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > max_bytes) end({ got: 'too_much' });
      });
    });
    request.on('response', (response) => {
      const status = response.statusCode ?? 0;
      if (!isSuccess(status)) return end({ got: 'status', status });
      response.on('end', () => end({ got: 'status', status }));
      response.on('error', () => fail('the server closed the connection in the middle of its answer'));
      response.resume();
    });
    request.on('upgrade', ({ statusCode }) => end({ got: 'status', status: statusCode ?? 0 }));
    request.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'HPE_HEADER_OVERFLOW'
        ? end({ got: 'too_much' })
        : fail(describeError(error), error.code === 'ECONNREFUSED'),
    );
    request.end();
  });
}
