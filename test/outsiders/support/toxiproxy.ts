/**
 * Starts toxiproxy and puts it between two processes. During a fault it delays, throttles, resets
 * or drops their traffic.
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
 * `begin` applies each toxic to both directions, so a round trip takes 2 s longer with `latency`.
 * The bandwidth is 5 KB/s in each direction.
 */
export const faults = {
  latency: { type: 'latency', attributes: { latency: 1_000 } },
  bandwidth: { type: 'bandwidth', attributes: { rate: 5 } },
  resets: { type: 'reset_peer', attributes: { timeout: 0 } },
  // With timeout 0, toxiproxy drops data and never closes the connection.
  'half-open': { type: 'timeout', attributes: { timeout: 0 } },
} satisfies Record<string, Toxic>;
export type FaultName = keyof typeof faults;

export interface FaultProxy {
  port: number;
  begin(toxic: Toxic): Promise<void>;
  /** Closes all connections and refuses new ones. */
  cut(): Promise<void>;
  end(): Promise<void>;
}

export interface Toxiproxy {
  /** Forwards from a new port to the address `upstream`. */
  proxy(name: string, upstream: string): Promise<FaultProxy>;
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
      const settings = { name, upstream, listen: '127.0.0.1:0', enabled: true };
      const { listen } = await call<{ listen: string }>('POST', '/proxies', settings);
      const path = `/proxies/${name}`;
      const toxicNames: string[] = [];
      return {
        port: Number(listen.split(':').at(-1)),
        async begin(toxic) {
          for (const stream of ['upstream', 'downstream']) {
            const toxicName = `${toxic.type}_${stream}`;
            await call('POST', `${path}/toxics`, { name: toxicName, stream, toxicity: 1, ...toxic });
            toxicNames.push(toxicName);
          }
        },
        async cut() {
          await call('POST', path, { enabled: false });
        },
        async end() {
          for (const toxicName of toxicNames.splice(0)) await call('DELETE', `${path}/toxics/${toxicName}`);
          // Without `listen`, toxiproxy would choose a new port.
          await call('POST', path, { enabled: true, listen });
        },
      };
    },
    async stop() {
      child.kill();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
