/** Forwards requests to a store, except those that a test holds or cuts. */
import { createServer, request as forwardRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type Match = (request: IncomingMessage) => boolean;

export interface StoreProxy {
  endpoint: string;
  /** Forwards matching requests only after `release`, and resolves when the first has come. */
  hold(match: Match): Promise<void>;
  /** Closes the connection in the middle of matching answers until `release`. */
  cut(match: Match): void;
  release(): void;
  stop(): void;
}

export async function startStoreProxy(target: string): Promise<StoreProxy> {
  const never: Match = () => false;
  let isHeld = never;
  let isCut = never;
  let noteHeld = () => {};
  let held: (() => void)[] = [];
  const server = createServer((request, response) => {
    if (!isHeld(request)) return forward(request, response);
    held.push(() => forward(request, response));
    noteHeld();
  });
  function forward(request: IncomingMessage, response: ServerResponse): void {
    // The sender may have closed its connection while the request was held.
    if (request.destroyed) return;
    const { method, headers, url = '/' } = request;
    const forwarded = forwardRequest(new URL(url, target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (isCut(request))
        answer.once('data', (chunk: Buffer) => response.write(chunk.subarray(0, 100), () => response.destroy()));
      else answer.pipe(response);
    });
    forwarded.once('error', () => response.destroy());
    request.once('close', () => request.complete || forwarded.destroy());
    request.pipe(forwarded);
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: (match) =>
      new Promise((resolve) => {
        noteHeld = resolve;
        isHeld = match;
      }),
    cut(match) {
      isCut = match;
    },
    release() {
      isHeld = never;
      isCut = never;
      for (const each of held) each();
      held = [];
    },
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
