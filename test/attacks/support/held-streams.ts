/** Opens event streams and keeps them open, like a browser with very many tabs. */
import { request } from 'node:http';

export interface HeldStreams {
  opened: number;
  /** The status code of the first refusal. */
  refused: number | null;
  close(): void;
}

const atOnce = 20;

/** With `cursor`, the streams resume there and the client reads nothing that it receives. */
export async function holdStreams(url: string, token: string, max: number, cursor?: string): Promise<HeldStreams> {
  const open = new Set<{ destroy(): void }>();
  let refused: number | null = null;
  const openOne = () =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, ...(cursor && { 'last-event-id': cursor }) };
      const outgoing = request(`${url}/v1/stream`, { headers, agent: false }, (reply) => {
        if (reply.statusCode === 200) open.add(outgoing);
        else refused ??= reply.statusCode ?? 0;
        if (cursor === undefined || reply.statusCode !== 200) reply.resume();
        reply.on('error', () => {});
        resolve();
      });
      outgoing.on('error', reject);
      outgoing.end();
    });
  for (let started = 0; started < max && refused === null; started += atOnce)
    await Promise.all(Array.from({ length: Math.min(atOnce, max - started) }, openOne));
  return {
    opened: open.size,
    refused,
    close() {
      for (const each of open) each.destroy();
    },
  };
}
