/** An HTTP proxy between agents and the server that loses polls for tasks, on either side. */
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LossyLine {
  url: string;
  /** Cuts the agent's connection when the server answers a poll with a task, so many times. */
  loseAnswers(count: number): void;
  /** Cuts the connection of each poll that is open. The server goes on holding the poll. Returns how many there were. */
  losePolls(): number;
  /** How many answers were lost so far. */
  lostAnswers(): number;
  stop(): Promise<void>;
}

const pollPath = '/v1/agent/tasks/next';

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function lossyLine(upstream: string): Promise<LossyLine> {
  let toLose = 0;
  let lostAnswers = 0;
  const openPolls = new Set<IncomingMessage>();

  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const isPoll = request.url?.startsWith(pollPath) ?? false;
    const body = await bodyOf(request);
    const { method, headers } = request;
    const sent = httpRequest(`${upstream}${request.url}`, { method, headers, agent: false });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    sent.end(body);
    if (isPoll) openPolls.add(request);
    // A poll that the agent gives up is given up here, unless it was lost.
    response.once('close', () => {
      if (!isPoll || openPolls.delete(request)) sent.destroy();
    });
    const [answer] = await answered;
    const text = await bodyOf(answer);
    if (isPoll && !openPolls.delete(request)) return;
    if (isPoll && toLose > 0 && JSON.parse(String(text)).task) {
      toLose--;
      lostAnswers++;
      request.socket.destroy();
    } else response.writeHead(answer.statusCode ?? 0, answer.headers).end(text);
  };
  const server = createServer((request, response) => {
    forward(request, response).catch(() => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseAnswers(count) {
      toLose = count;
    },
    losePolls() {
      const polls = [...openPolls];
      openPolls.clear();
      for (const { socket } of polls) socket.destroy();
      return polls.length;
    },
    lostAnswers: () => lostAnswers,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
