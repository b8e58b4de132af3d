/** Opens event streams and keeps them open, like a browser with very many tabs. */
import { request } from 'node:http';

export interface HeldStreams {
  opened: number;
  /** The status code of the first refusal. */
  refused: number | null;
  close(): void;
}

const batchSize = 20;

/** With `cursor`, the streams resume there and the client reads nothing that it receives. */
export async function holdStreams(url: string, token: string, max: number, cursor?: string): Promise<HeldStreams> {
  const openRequests = new Set<{ destroy(): void }>();
  let refusalStatus: number | null = null;
  const openOne = () =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, ...(cursor && { 'last-event-id': cursor }) };
      const outgoing = request(`${url}/v1/stream`, { headers, agent: false }, (reply) => {
        if (reply.statusCode === 200) openRequests.add(outgoing);
        else refusalStatus ??= reply.statusCode ?? 0;
        if (cursor === undefined || reply.statusCode !== 200) reply.resume();
        reply.on('error', () => {});
        resolve();
      });
      outgoing.on('error', reject);
      outgoing.end();
    });
  for (let startedCount = 0; startedCount < max && refusalStatus === null; startedCount += batchSize)
    await Promise.all(Array.from({ length: Math.min(batchSize, max - startedCount) }, openOne));
  return {
    opened: openRequests.size,
    refused: refusalStatus,
    close() {
      for (const each of openRequests) each.destroy();
    },
  };
}
