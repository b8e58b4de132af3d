/** One GET to one address that was already judged. It looks up no name, follows nothing, keeps no connection. */
import { request as httpRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { hostOf } from './probe-url.ts';

export type Asked =
  | { got: 'status'; status: number }
  | { got: 'too_much' }
  | { got: 'no_time' }
  /** Without a connection another address of the same name may still do. */
  | { got: 'no_connection'; why: string; refused: boolean }
  | { got: 'no_answer'; why: string };

export interface AskLimits {
  clock: Clock;
  /** Fires when the time of the whole probe is over. */
  signal: AbortSignal;
  /** For the connection alone, where other addresses are left to try. */
  connect_ms: number | undefined;
}

/** Headers and body together; a health answer is a line or two. */
export const most_bytes = 64 * 1024;

export const isSuccess = (status: number) => status >= 200 && status < 300;

const saidPlainly = ({ code, message }: NodeJS.ErrnoException) =>
  code === 'ECONNRESET' ? 'it closed the connection without an answer' : message;

function optionsFor(url: URL, address: string): RequestOptions & { servername: string } {
  const name = hostOf(url);
  return {
    // The address itself, so that between judging and connecting no second lookup can answer otherwise.
    host: address,
    port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port,
    path: url.pathname + url.search,
    // TLS greets and checks the name; a certificate never carries the dot of an absolute name, nor SNI an address.
    servername: isIP(name) ? '' : name.replace(/\.$/, ''),
    headers: { host: url.host, accept: '*/*', 'user-agent': 'slipway-probe' },
    // An agent of its own: no connection, session or proxy is shared with another probe.
    agent: false,
    maxHeaderSize: most_bytes,
  };
}

export function askAddress(url: URL, address: string, { clock, signal, connect_ms }: AskLimits): Promise<Asked> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve({ got: 'no_time' });
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = open(optionsFor(url, address));
    let connected = false;
    let bytes = 0;

    const end = (asked: Asked) => {
      cancelConnect();
      signal.removeEventListener('abort', outOfTime);
      request.destroy();
      resolve(asked);
    };
    const fail = (why: string, refused = false) =>
      end(connected ? { got: 'no_answer', why } : { got: 'no_connection', why, refused });
    const outOfTime = () => end({ got: 'no_time' });
    const cancelConnect =
      connect_ms === undefined ? () => {} : clock.after(connect_ms, () => fail(`${address} takes no connection`));
    signal.addEventListener('abort', outOfTime, { once: true });

    request.on('socket', (socket) => {
      socket.once('connect', () => {
        connected = true;
        cancelConnect();
      });
      // Counted at the socket, where interim answers, chunk marks and trailers count as well.
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > most_bytes) end({ got: 'too_much' });
      });
    });
    request.on('response', (response) => {
      const status = response.statusCode ?? 0;
      if (!isSuccess(status)) return end({ got: 'status', status });
      response.on('end', () => end({ got: 'status', status }));
      response.on('error', () => fail('it closed the connection in the middle of its answer'));
      response.resume();
    });
    request.on('upgrade', ({ statusCode }) => end({ got: 'status', status: statusCode ?? 0 }));
    request.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'HPE_HEADER_OVERFLOW'
        ? end({ got: 'too_much' })
        : fail(saidPlainly(error), error.code === 'ECONNREFUSED'),
    );
    request.end();
  });
}
