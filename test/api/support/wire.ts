/** Sends raw HTTP: addresses, headers and bytes go out unchanged. */
import http from 'node:http';
import net from 'node:net';
import type { Answer } from './calls.ts';

export interface Wire {
  send(method: string, path: string, headers: Record<string, string | string[]>, body?: string): Promise<Answer>;
  /**
   * Sends bytes on a new connection, and returns everything received until the server closes it.
   */
  sendBytes(text: string): Promise<string>;
  close(): void;
}

const maxMs = 10_000;

const lengthHeader = (body?: string) =>
  body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };

export function openWire(url: string): Wire {
  const { hostname, port } = new URL(url);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  return {
    send: (method, path, headers, body) =>
      new Promise((resolve, reject) => {
        const request = http.request(
          { hostname, port, method, path, headers: { ...lengthHeader(body), ...headers }, agent, timeout: maxMs },
          (reply) => {
            let text = '';
            reply.setEncoding('utf8');
            reply.on('data', (chunk: string) => {
              text += chunk;
              // A stream opened by mistake would never end.
              if (reply.headers['content-type']?.startsWith('text/event-stream'))
                request.destroy(new Error('a stream opened'));
            });
            reply.on('end', () => {
              const fields = Object.entries(reply.headers).map(
                ([name, value]) => [name, String(value)] as [string, string],
              );
              const isJson = (reply.headers['content-type'] ?? '').includes('json');
              resolve({
                status: reply.statusCode ?? 0,
                headers: new Headers(fields),
                text,
                body: isJson && text ? JSON.parse(text) : {},
              });
            });
          },
        );
        request.on('timeout', () => request.destroy(new Error(`no answer to ${method} ${path}`)));
        request.on('error', reject);
        request.end(body);
      }),
    sendBytes: (text) =>
      new Promise((resolve, reject) => {
        let receivedText = '';
        const socket = net.connect(Number(port), hostname, () => socket.write(text, 'latin1'));
        socket.setTimeout(maxMs, () =>
          socket.destroy(new Error(`the connection did not close after: ${receivedText || 'nothing'}`)),
        );
        socket.on('data', (chunk) => {
          receivedText += chunk;
        });
        socket.on('close', () => resolve(receivedText));
        socket.on('error', reject);
      }),
    close: () => agent.destroy(),
  };
}
