/** A worker that sends hostile requests, a few at a time, and counts the answers by status. */
import { request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';
import { hostileBootReports, hostileJson, hostileYaml } from './hostile-input.ts';

export interface HostileRequest {
  method: string;
  path: string;
  type: string;
  shape: string;
  size: number;
  /** Sends no content-length, so that the server notices its limit only while it reads the body. */
  chunked: boolean;
}

export const shapesOf: Record<string, typeof hostileJson> = {
  'application/json': hostileJson,
  'application/yaml': hostileYaml,
  'text/yaml': hostileYaml,
  'text/plain': hostileBootReports,
  'application/x-ndjson': hostileJson,
};

const concurrency = 8;

function sendRequest(url: string, { method, path, type, shape, size, chunked }: HostileRequest): Promise<number> {
  const body = Buffer.from(shapesOf[type]?.[shape]?.(size) ?? '');
  return new Promise((resolve) => {
    const headers = { 'content-type': type, ...(!chunked && { 'content-length': body.length }) };
    const outgoing = request(url + path, { method, headers, agent: false }, (reply) => {
      reply.resume();
      reply.on('close', () => resolve(reply.statusCode ?? 0));
    });
    // The server may answer and close before it has read everything.
    outgoing.on('error', () => resolve(0));
    outgoing.end(body);
  });
}

async function sendAll(url: string, requests: HostileRequest[]): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {};
  const queue = requests[Symbol.iterator]();
  const sender = async () => {
    for (const each of queue) {
      const status = await sendRequest(url, each);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, sender));
  return statuses;
}

if (parentPort) {
  const { url, requests } = workerData as { url: string; requests: HostileRequest[] };
  parentPort.postMessage(await sendAll(url, requests));
}
