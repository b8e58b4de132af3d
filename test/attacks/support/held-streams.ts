/** Opens event streams and keeps them open, as a browser with very many tabs would. */
import { request } from 'node:http';

export interface HeldStreams {
  opened: number;
  /** The status of the first that was refused. */
  refused: number | null;
  close(): void;
}

const atOnce = 20;

/** `cursor`: they resume from there, and nothing of what they are sent is read. */
export async function holdStreams(url: string, token: string, most: number, cursor?: string): Promise<HeldStreams> {
  const open = new Set<{ destroy(): void }>();
  let refused: number | null = null;
  const openOne = () =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, ...(cursor && { 'last-event-id': cursor }) };
      const asked = request(`${url}/v1/stream`, { headers, agent: false }, (reply) => {
        if (reply.statusCode === 200) open.add(asked);
        else refused ??= reply.statusCode ?? 0;
        if (cursor === undefined || reply.statusCode !== 200) reply.resume();
        reply.on('error', () => {});
        resolve();
      });
      asked.on('error', reject);
      asked.end();
    });
  for (let begun = 0; begun < most && refused === null; begun += atOnce)
    await Promise.all(Array.from({ length: Math.min(atOnce, most - begun) }, openOne));
  return {
    opened: open.size,
    refused,
    close() {
      for (const each of open) each.destroy();
    },
  };
}
