/** A client of the agent stream. It records the received frames and how the stream ended. */
import { WebSocket } from 'ws';
import { until } from '../../support/until.ts';

export type Frame = Record<string, unknown>;

export interface StreamClient {
  socket: WebSocket;
  frames: Frame[];
  send(frame: object | string): void;
  /** Waits for the first matching frame; it may have been received already. */
  waitForFrame(what: string, matches: (frame: Frame) => boolean): Promise<Frame>;
  closed: Promise<{ code: number; reason: string }>;
}

/** The server's answer to a refused upgrade. */
export interface RefusedUpgrade {
  status: number;
  body: Frame;
}

const addressOf = (url: string) => `${url.replace('http', 'ws')}/v1/agent/stream`;

/** Requests a stream that the server must refuse. */
export function requestRefusedStream(url: string, headers: Record<string, string>): Promise<RefusedUpgrade> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(addressOf(url), { headers });
    socket.on('open', () => {
      socket.terminate();
      reject(new Error('the upgrade was accepted'));
    });
    socket.on('error', reject);
    socket.on('unexpected-response', (_, response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }));
    });
  });
}

export async function openStream(url: string, bearer: string): Promise<StreamClient> {
  const socket = new WebSocket(addressOf(url), { headers: { authorization: `Bearer ${bearer}` } });
  const frames: Frame[] = [];
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  socket.on('error', () => {});
  return {
    socket,
    frames,
    closed,
    send: (frame) => socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    waitForFrame: (what, matches) => until(what, () => frames.find(matches)),
  };
}
