/**
 * The baseline of `bench/readers.ts`: a bare `node:http` server in its own process that writes
 * chunks of a given size to all its readers at a given interval.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { now, systemClock } from '../../src/base/clock.ts';

export interface Fanout {
  chunk_bytes: number;
  every_ms: number;
}

const responses = new Set<ServerResponse>();
const server = createServer((_, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(': welcome\n\n');
  responses.add(response);
  response.on('close', () => responses.delete(response));
});

let cancel = () => {};
function send({ chunk_bytes, every_ms }: Fanout): void {
  const stamp = `data: {"cursor":"0-0","at":"${now(systemClock).toISOString()}"}\n\n`;
  const chunk = Buffer.alloc(Math.max(chunk_bytes, stamp.length), 'x');
  chunk.write(stamp);
  for (const response of responses) response.write(chunk);
  cancel = systemClock.after(every_ms, () => send({ chunk_bytes, every_ms }));
}

process.on('message', (fanout: Fanout) => {
  cancel();
  send(fanout);
  process.send?.(true);
});
process.on('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
