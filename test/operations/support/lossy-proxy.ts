/** An HTTP proxy between agents and the server that can lose task polls and their replies. */
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LossyProxy {
  url: string;
  /** Cuts the agent's connection the next `count` times that the server replies with a task. */
  loseReplies(count: number): void;
  /**
   * Cuts the agent's connection of each open poll, but keeps the connection to the server. Returns
   * the number of cut polls.
   */
  losePolls(): number;
  /** The number of lost replies so far. */
  lostReplies(): number;
  stop(): Promise<void>;
}

const pollPath = '/v1/agent/tasks/next';

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function lossyProxy(upstream: string): Promise<LossyProxy> {
  let repliesToLose = 0;
  let lostReplies = 0;
  const openPolls = new Set<IncomingMessage>();

  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const isPoll = request.url?.startsWith(pollPath) ?? false;
    const body = await readBody(request);
    const { method, headers } = request;
    const upstreamRequest = httpRequest(`${upstream}${request.url}`, { method, headers, agent: false });
    const responseEvent = once(upstreamRequest, 'response') as Promise<[IncomingMessage]>;
    upstreamRequest.end(body);
    if (isPoll) openPolls.add(request);
    // Close the connection to the server when the agent closes its own, unless the poll was lost.
    response.once('close', () => {
      if (!isPoll || openPolls.delete(request)) upstreamRequest.destroy();
    });
    const [reply] = await responseEvent;
    const text = await readBody(reply);
    if (isPoll && !openPolls.delete(request)) return;
    if (isPoll && repliesToLose > 0 && JSON.parse(String(text)).task) {
      repliesToLose--;
      lostReplies++;
      request.socket.destroy();
    } else response.writeHead(reply.statusCode ?? 0, reply.headers).end(text);
  };
  const server = createServer((request, response) => {
    forward(request, response).catch(() => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseReplies(count) {
      repliesToLose = count;
    },
    losePolls() {
      const polls = [...openPolls];
      openPolls.clear();
      for (const { socket } of polls) socket.destroy();
      return polls.length;
    },
    lostReplies: () => lostReplies,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
