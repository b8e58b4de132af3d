/** The HTTPS server of the fake ARM. It applies the planned faults and records every request. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Certificate } from '../../../src/probe/testing/self-signed.ts';
import type { PlannedFaults } from './faults.ts';
import { type ArmAnswer, Refusal } from './refusal.ts';
import type { ArmRequest } from './route.ts';

/** A recorded request, without its credentials. */
export interface RecordedRequest {
  method: string;
  path: string;
  query: string;
  /** The status of the answer, even if a fault kept it from being sent. 0 without an answer. */
  status: number;
  correlation: string | null;
  body: unknown;
}

export interface HttpFront {
  port: number;
  requests: RecordedRequest[];
  down(): Promise<void>;
  up(): Promise<void>;
  /** Accepts requests without answering until `resume` is called. */
  hang(): void;
  resume(): void;
  stop(): Promise<void>;
}

const headerOf = (message: IncomingMessage, name: string) => {
  const value = message.headers[name];
  return typeof value === 'string' ? value : null;
};

async function readText(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const recordedBody = (path: string, text: string): unknown => {
  if (!text || path.includes('/oauth2/')) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

export async function httpFront(
  certificate: Certificate,
  faults: PlannedFaults,
  answer: (request: ArmRequest) => ArmAnswer,
): Promise<HttpFront> {
  const requests: RecordedRequest[] = [];
  const sockets = new Set<Duplex>();
  let hanging = false;
  let port = 0;

  const answerOrRefuse = (request: ArmRequest): ArmAnswer => {
    try {
      return answer(request);
    } catch (error) {
      if (error instanceof Refusal) return error.answer();
      throw error;
    }
  };

  const serve = async (message: IncomingMessage, response: ServerResponse) => {
    // A scope that starts with a slash produces a double slash in the SDK's addresses; ARM accepts
    // both.
    const address = new URL((message.url ?? '/').replace(/^\/{2,}/, '/'), `https://localhost:${port}`);
    const text = await readText(message);
    const method = message.method ?? 'GET';
    const request: ArmRequest = {
      ...{ method, text, url: address.toString(), path: address.pathname, query: address.searchParams },
      headers: message.headers,
    };
    const record: RecordedRequest = {
      ...{ method, path: address.pathname, query: address.search, status: 0 },
      correlation: headerOf(message, 'x-ms-correlation-request-id') ?? headerOf(message, 'x-ms-client-request-id'),
      body: recordedBody(address.pathname, text),
    };
    requests.push(record);
    if (hanging) return;
    const fault = faults.takeEffect(method, address.pathname);
    if (fault === 'hang') return;
    if (fault === 'cut_before') return message.socket.destroy();
    const { status, headers, body } = fault instanceof Refusal ? fault.answer() : answerOrRefuse(request);
    record.status = status;
    if (fault === 'cut_after') return message.socket.destroy();
    if (fault === 'hang_after') return;
    response.writeHead(status, {
      ...(body !== undefined && { 'content-type': 'application/json; charset=utf-8' }),
      'x-ms-request-id': randomUUID(),
      'x-ms-correlation-request-id': record.correlation ?? randomUUID(),
      ...headers,
    });
    response.end(body === undefined || method === 'HEAD' ? undefined : JSON.stringify(body));
  };

  let server: Server | null = null;
  const up = async () => {
    server = createServer(certificate, (message, response) => {
      serve(message, response).catch((error: unknown) => {
        response.writeHead(500, { 'content-type': 'text/plain' });
        response.end(`the fake ARM failed: ${error}`);
      });
    });
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
  };
  const down = async () => {
    const closed = new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
    for (const socket of sockets) socket.destroy();
    await closed;
    server = null;
  };
  await up();

  return {
    ...{ port, requests, down, up },
    hang: () => {
      hanging = true;
    },
    resume: () => {
      hanging = false;
    },
    stop: down,
  };
}
