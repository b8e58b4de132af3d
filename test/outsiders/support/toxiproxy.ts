/**
 * Toxiproxy between two of our processes: delays, throttles, resets or drops traffic while a fault
 * lasts.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export interface Toxic {
  type: 'latency' | 'bandwidth' | 'reset_peer' | 'timeout';
  attributes: Record<string, number>;
}

/**
 * Toxiproxy applies each toxic to one direction; here both have it. The latency adds up to 2 s, the
 * bandwidth is 5 KB/s.
 */
export const faults = {
  latency: { type: 'latency', attributes: { latency: 1_000 } },
  bandwidth: { type: 'bandwidth', attributes: { rate: 5 } },
  resets: { type: 'reset_peer', attributes: { timeout: 0 } },
  // Without a timeout nothing is closed: data is dropped silently.
  'half-open': { type: 'timeout', attributes: { timeout: 0 } },
} satisfies Record<string, Toxic>;
export type FaultName = keyof typeof faults;

export interface FaultyLine {
  port: number;
  begin(toxic: Toxic): Promise<void>;
  /** Closes all connections and refuses new ones. */
  cut(): Promise<void>;
  end(): Promise<void>;
}

export interface Toxiproxy {
  /** Forwards to this address from a new port. */
  proxy(name: string, upstream: string): Promise<FaultyLine>;
  stop(): Promise<void>;
}

export async function startToxiproxy(place: string): Promise<Toxiproxy> {
  const port = await freePort();
  const child = spawn(join(place, 'server'), ['-port', String(port)], { stdio: 'ignore' });
  const api = `http://127.0.0.1:${port}`;
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const reply = await fetch(`${api}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`toxiproxy: ${method} ${path}: ${reply.status} ${text}`);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  };
  await until('toxiproxy to listen', () =>
    call('GET', '/version').then(
      () => true,
      () => undefined,
    ),
  );

  return {
    async proxy(name, upstream) {
      const created = { name, upstream, listen: '127.0.0.1:0', enabled: true };
      const { listen } = await call<{ listen: string }>('POST', '/proxies', created);
      const own = `/proxies/${name}`;
      const added: string[] = [];
      return {
        port: Number(listen.split(':').at(-1)),
        async begin(toxic) {
          for (const stream of ['upstream', 'downstream']) {
            const toxicName = `${toxic.type}_${stream}`;
            await call('POST', `${own}/toxics`, { name: toxicName, stream, toxicity: 1, ...toxic });
            added.push(toxicName);
          }
        },
        async cut() {
          await call('POST', own, { enabled: false });
        },
        async end() {
          for (const each of added.splice(0)) await call('DELETE', `${own}/toxics/${each}`);
          // Toxiproxy would choose another port, so the old one is requested again.
          await call('POST', own, { enabled: true, listen });
        },
      };
    },
    async stop() {
      child.kill();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
