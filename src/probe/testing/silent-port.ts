/**
 * Opens a port that accepts no connection, like a host behind a firewall that drops packets. The
 * accept queue of the port is full.
 */
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

/** Listens, posts its port and blocks, so that the kernel drops connections beyond the queue. */
const blockedListener = `
  const { parentPort } = require('node:worker_threads');
  const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
`;

/** The kernel accepts one more than the backlog. */
const queue_length = 2;

export async function silentPort(): Promise<number> {
  const worker = new Worker(blockedListener, { eval: true });
  const port = await new Promise<number>((resolve) => worker.once('message', resolve));
  const queued: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of queued) socket.destroy();
    await worker.terminate();
  });
  while (queued.length < queue_length) {
    const socket = connect(port, '127.0.0.1');
    queued.push(socket);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    socket.on('error', () => {});
  }
  return port;
}
