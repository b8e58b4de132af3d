/** Opens many event streams and measures when an expected text arrives on each. */
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { systemClock } from '../../src/base/clock.ts';

export interface Watchers {
  /** Resolves with the milliseconds from this call until `text` arrived, for each stream. */
  wait(text: string): Promise<number[]>;
  close(): void;
}

export async function openWatchers(url: string, token: string, count: number): Promise<Watchers> {
  const agent = new Agent({ maxSockets: count });
  const headers = { authorization: `Bearer ${token}` };
  const bodies: IncomingMessage[] = [];
  for (let i = 0; i < count; i++) {
    const request = get(`${url}/v1/stream?topics=operations`, { agent, headers });
    const [reply] = (await once(request, 'response')) as [IncomingMessage];
    if (reply.statusCode !== 200) throw new Error(`the stream was refused with ${reply.statusCode}`);
    reply.setEncoding('utf8').resume();
    bodies.push(reply);
  }
  return {
    wait(text) {
      const startedMs = systemClock.monotonicMs();
      const arrivals = bodies.map(
        (body) =>
          new Promise<number>((resolve) => {
            // The text may span two chunks.
            let previousEnd = '';
            const onData = (chunk: string) => {
              const received = previousEnd + chunk;
              previousEnd = received.slice(-text.length);
              if (!received.includes(text)) return;
              body.off('data', onData);
              resolve(systemClock.monotonicMs() - startedMs);
            };
            body.on('data', onData);
          }),
      );
      return Promise.all(arrivals);
    },
    close() {
      for (const body of bodies) body.destroy();
      agent.destroy();
    },
  };
}
