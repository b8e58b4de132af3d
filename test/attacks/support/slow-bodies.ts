/**
 * Sends requests whose headers arrive at once and whose bodies are held back, so that many requests
 * are admitted before any is served.
 */
import { type ClientRequest, request } from 'node:http';
import { fillPath } from '../../../src/contract/client.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';

export interface SlowBody {
  /** Settles once the server has read the headers or the connection has ended. */
  arrived: Promise<unknown>;
  /** The status of the reply; 0 if the connection ended without one. */
  replied: Promise<number>;
  /** Null until there is a reply. */
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

/** Sends the first byte of the body at once and the rest on `finish`. */
export function openSlowBody(url: string, name: OperationName, body: unknown, sender: Sender = {}): SlowBody {
  const route: RouteDeclaration = routes[name];
  const text = JSON.stringify(body);
  let status: number | null = null;
  let outgoing: ClientRequest | undefined;
  let markArrived = () => {};
  const continued = new Promise<void>((resolve) => {
    markArrived = resolve;
  });
  const replied = new Promise<number>((resolve) => {
    outgoing = request(
      url + fillPath(route.path),
      {
        method: route.method,
        agent: false,
        ...(sender.from && { localAddress: sender.from }),
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
          // The server sends `100 Continue` before it reads the body, so the client learns that the
          // headers have arrived.
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
    outgoing.on('continue', markArrived);
    outgoing.on('error', () => {
      status ??= 0;
      resolve(status);
    });
    outgoing.write(text.slice(0, 1));
  });
  return {
    arrived: Promise.race([continued, replied]),
    replied,
    status: () => status,
    finish: () => void outgoing?.end(text.slice(1)),
    close: () => void outgoing?.destroy(),
  };
}
