/** Many watchers, each with its own stream, that note when an expected text arrives. */
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { systemClock } from '../../src/base/clock.ts';

export interface Watchers {
  /** Resolves with the time after this call at which each received `text`, in milliseconds. */
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
    if (reply.statusCode !== 200) throw new Error(`no stream: ${reply.statusCode}`);
    reply.setEncoding('utf8').resume();
    bodies.push(reply);
  }
  return {
    wait(text) {
      const startedMs = systemClock.monotonicMs();
      const came = bodies.map(
        (body) =>
          new Promise<number>((resolve) => {
            // The text may span two pieces.
            let rest = '';
            const take = (chunk: string) => {
              const received = rest + chunk;
              rest = received.slice(-text.length);
              if (!received.includes(text)) return;
              body.off('data', take);
              resolve(systemClock.monotonicMs() - startedMs);
            };
            body.on('data', take);
          }),
      );
      return Promise.all(came);
    },
    close() {
      for (const body of bodies) body.destroy();
      agent.destroy();
    },
  };
}
