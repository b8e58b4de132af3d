/** Requests that send their headers and keep their bodies back: many can be admitted before any of them is served. */
import { type ClientRequest, request } from 'node:http';
import { fillPath } from '../../../src/contract/client.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';

export interface SlowBody {
  /** Settles once the server has read the headers, or the connection ended. */
  arrived: Promise<unknown>;
  /** The status of the reply; 0 when the connection ended without one. */
  replied: Promise<number>;
  /** Null until there is one. */
  status(): number | null;
  /** Sends the rest of the body. */
  finish(): void;
  close(): void;
}

export interface Sender {
  bearer?: string;
  /** The local address to send from. */
  from?: string;
  headers?: Record<string, string>;
}

/** The first byte of the body is sent at once, the rest by `finish`. */
export function openSlowBody(url: string, name: OperationName, body: unknown, sender: Sender = {}): SlowBody {
  const route: RouteDeclaration = routes[name];
  const text = JSON.stringify(body);
  let status: number | null = null;
  let asked: ClientRequest | undefined;
  let headersRead = () => {};
  const continued = new Promise<void>((resolve) => {
    headersRead = resolve;
  });
  const replied = new Promise<number>((resolve) => {
    asked = request(
      url + fillPath(route.path),
      {
        method: route.method,
        agent: false,
        ...(sender.from && { localAddress: sender.from }),
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
          // Answered at once, before the body: the sign that the request has arrived.
          expect: '100-continue',
          ...(sender.bearer && { authorization: `Bearer ${sender.bearer}` }),
          ...sender.headers,
        },
      },
      (reply) => {
        status = reply.statusCode ?? 0;
        reply.resume();
        reply.on('error', () => {});
        resolve(status);
      },
    );
    asked.on('continue', headersRead);
    asked.on('error', () => {
      status ??= 0;
      resolve(status);
    });
    asked.write(text.slice(0, 1));
  });
  return {
    arrived: Promise.race([continued, replied]),
    replied,
    status: () => status,
    finish: () => void asked?.end(text.slice(1)),
    close: () => void asked?.destroy(),
  };
}
