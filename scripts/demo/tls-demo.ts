/**
 * The TLS demo: server, proxy, authority and one machine, with commands to break and repair each
 * layer.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { agentDoctor } from '../../src/agent/doctor.ts';
import { pause, systemClock } from '../../src/base/clock.ts';
import { readSettings } from '../../src/base/settings/settings.ts';
import { createLog } from '../../src/base/telemetry/log.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import type { Node } from '../../src/contract/node.ts';
import { routes } from '../../src/contract/routes.ts';
import type { LayerReport } from '../../src/doctor/examination.ts';
import { examine } from '../../src/doctor/examine.ts';
import { closingLines, layerLine } from '../../src/doctor/render.ts';
import { startServer } from '../../src/server/start-server.ts';
import { freePort } from '../../test/support/free-port.ts';
import { faultyProxy, type ProxyFault, proxyFaults } from './faulty-proxy.ts';

export const faultNames = ['dns', ...proxyFaults, 'credential', 'fence', 'heartbeat'] as const;
export type Fault = (typeof faultNames)[number];

export interface TlsDemo {
  /**
   * Breaks one layer, repairs the previous one, and prints what doctor finds from both ends; null
   * only repairs.
   */
  doctor(fault: Fault | null): Promise<void>;
  stop(): Promise<void>;
}

interface Stage {
  client: Client;
  node: Node;
  /** Of the machine's agent. */
  pid: number;
}

const pool = 'demo';
const staleSeconds = 3;
const timeout_seconds = 5;
const plain = (_tone: string, text: string) => text;
const isOfProxy = (fault: Fault | null): fault is ProxyFault => proxyFaults.some((name) => name === fault);

async function untilThere<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await pause(systemClock, 200);
  }
}

async function machineFrom(client: Client): Promise<Node> {
  const heartbeat = { interval_seconds: 1, stale_after_seconds: staleSeconds };
  const document = { driver: 'local', heartbeat, spec: { command: ['sleep', 'infinity'] } };
  await client.call('pool-put', { params: { pool }, body: document });
  await client.call('allocation-create', { body: { pool } });
  return untilThere(async () => {
    const { items } = await client.call('node-list', { query: { pool, status: 'ready' } });
    return items[0];
  });
}

const act = (client: Client, id: string, action: 'drain' | 'undrain') =>
  client.call('node-act', { params: { id, action }, body: { reason: 'to see what doctor says' } });

/** Faults outside the proxy: how to break and repair them. */
const ways: Partial<Record<Fault, { break(stage: Stage): Promise<unknown>; mend(stage: Stage): Promise<unknown> }>> = {
  fence: {
    break: ({ client, node }) => act(client, node.node_id, 'drain'),
    mend: ({ client, node }) => act(client, node.node_id, 'undrain'),
  },
  heartbeat: {
    async break({ pid }) {
      process.kill(pid, 'SIGSTOP');
      await pause(systemClock, (staleSeconds + 1) * 1000);
    },
    mend: async ({ pid }) => process.kill(pid, 'SIGCONT'),
  },
};

export async function startTlsDemo(options: {
  data_dir: string;
  port: number;
  say(text: string): void;
}): Promise<TlsDemo> {
  const { data_dir, say } = options;
  // The server must know its public address before it starts, so both ports are chosen first.
  const port = await freePort();
  const upstream = `http://127.0.0.1:${port}`;
  const proxy = await faultyProxy(upstream, options.port);
  const ca_file = join(data_dir, 'demo-ca.pem');
  await writeFile(ca_file, proxy.ca);
  const flags = ['--port', String(port), '--data-dir', data_dir, '--public-url', proxy.url, '--public-ca', ca_file];
  const server = await startServer(readSettings(flags, {}), createLog({ level: 'error' }));
  const token = (await readFile(server.admin_token_path, 'utf8')).trim();
  const client = createClient({ base_url: upstream, token, addresses: routes });
  const node = await machineFrom(client);
  const directory = join(data_dir, 'nodes', node.node_instance_id ?? '');
  const { pid } = JSON.parse(await readFile(join(directory, 'launch.json'), 'utf8'));
  const stage: Stage = { client, node, pid };
  const config = join(directory, 'agent.json');

  say(
    [
      '',
      `  Server      ${proxy.url}`,
      `  Token       in ${server.admin_token_path}`,
      `  Authority   ${ca_file}`,
      `  Machine     ${node.node_id}`,
      '',
      `  Ask         ./bin/slipway doctor ${node.node_id} --server ${proxy.url} --data-dir ${data_dir} --ca ${ca_file}`,
      `  On the machine   ./bin/slipway agent doctor --config ${config}`,
      '',
    ].join('\n'),
  );

  const fromOperator = async (fault: Fault | null) => {
    const reports: LayerReport[] = [];
    const examination = examine({
      url: new URL(fault === 'dns' ? 'https://nowhere.invalid' : proxy.url),
      ca: proxy.ca,
      known_keys: null,
      caller: { kind: 'person', token: fault === 'credential' ? 'swt_wrong' : token, node_id: node.node_id },
      correlation_id: 'demo',
      clock: systemClock,
      signal: new AbortController().signal,
      timeout_seconds,
    });
    for await (const report of examination) {
      reports.push(report);
      say(layerLine(report, plain));
    }
    say(closingLines(reports, plain).join('\n'));
  };

  let broken: Fault | null = null;
  const breakIt = async (fault: Fault | null) => {
    if (broken !== null) await ways[broken]?.mend(stage);
    await proxy.break(null);
    // Otherwise the silence of the previous fault would be attributed to this one.
    await untilThere(async () => {
      const { checks } = await client.call('node-checkup', { params: { id: node.node_id } });
      return checks.every(({ ok }) => ok) || undefined;
    });
    if (isOfProxy(fault)) await proxy.break(fault);
    if (fault !== null) await ways[fault]?.break(stage);
    broken = fault;
  };

  return {
    async doctor(fault) {
      await breakIt(fault);
      say(
        fault === null
          ? '\nAll is mended. An operator’s doctor says:'
          : `\n${fault} is broken. An operator’s doctor says:`,
      );
      await fromOperator(fault);
      // The fault affects only the operator's name resolution or credential, not the machine's.
      if (fault === 'dns' || fault === 'credential') return;
      say('\nOn the machine it says:');
      await agentDoctor(
        ['--config', config, '--patience', String(timeout_seconds)],
        {},
        { clock: systemClock, out: say, err: say },
      );
    },
    async stop() {
      await breakIt(null);
      process.kill(pid, 'SIGTERM');
      await server.stop();
      await proxy.stop();
    },
  };
}
