/**
 * A minimal HTTP client. It sends raw requests over persistent sockets, one at a time on each
 * socket, and reads every answer completely.
 */
import { connect, type Socket } from 'node:net';

const endOfHead = Buffer.from('\r\n\r\n');

/** The length of an answer, or undefined until all its headers have arrived. */
function lengthOf(bytes: Buffer): number | undefined {
  const end = bytes.indexOf(endOfHead);
  if (end === -1) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (!head.startsWith('HTTP/1.1 200') || length === undefined)
    throw new Error(`unexpected answer: ${bytes.toString()}`);
  return end + endOfHead.length + Number(length);
}

/** Sends requests on one socket until `next` returns undefined. */
function sendOn(socket: Socket, next: () => string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    const turn = () => {
      const request = next();
      if (request === undefined) {
        socket.removeAllListeners();
        socket.destroy();
        resolve();
      } else socket.write(request);
    };
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
    socket.on('data', (bytes: Buffer) => {
      received = received.length === 0 ? bytes : Buffer.concat([received, bytes]);
      try {
        if (received.length < (lengthOf(received) ?? Number.POSITIVE_INFINITY)) return;
      } catch (error) {
        reject(error);
        return;
      }
      received = Buffer.alloc(0);
      turn();
    });
    socket.once('connect', turn);
  });
}

/** Sends `count` requests over several connections. Resolves after the last answer. */
export async function send(
  port: number,
  count: number,
  connections: number,
  request: (turn: number) => string,
): Promise<void> {
  let turn = 0;
  const next = () => (turn < count ? request(turn++) : undefined);
  const sockets = Array.from({ length: connections }, () => connect(port, '127.0.0.1').setNoDelay(true));
  await Promise.all(sockets.map((socket) => sendOn(socket, next)));
}

/** The text of a POST request. */
export function post(port: number, path: string, body: string, credential?: string): string {
  return [
    `POST ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    'content-type: application/json',
    ...(credential === undefined ? [] : [`authorization: Bearer ${credential}`]),
    `content-length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}
