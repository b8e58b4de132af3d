/** Toxiproxy between two of ours: what passes is delayed, throttled, reset or dropped while a fault lasts. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export interface Toxic {
  type: 'latency' | 'bandwidth' | 'reset_peer' | 'timeout';
  attributes: Record<string, number>;
}

/** Toxiproxy applies each to one direction; here both have it. The latency is 2 s there and back, the bandwidth 5 KB/s. */
export const faults = {
  latency: { type: 'latency', attributes: { latency: 1_000 } },
  bandwidth: { type: 'bandwidth', attributes: { rate: 5 } },
  resets: { type: 'reset_peer', attributes: { timeout: 0 } },
  // Without a timeout nothing is closed: what is sent is dropped, and nobody hears that.
  'half-open': { type: 'timeout', attributes: { timeout: 0 } },
} satisfies Record<string, Toxic>;
export type FaultName = keyof typeof faults;

export interface FaultyLine {
  port: number;
  begin(toxic: Toxic): Promise<void>;
  /** Nobody gets through at all: connections are closed, and new ones refused. */
  cut(): Promise<void>;
  end(): Promise<void>;
}

export interface Toxiproxy {
  /** To this address, from a port of its own. */
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
          // Its port would be another one: it is asked for again.
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
