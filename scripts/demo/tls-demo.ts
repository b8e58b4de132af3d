/**
 * Starts the TLS demo: a server, a proxy, an authority and one machine. Each layer can be broken
 * and repaired.
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
   * Breaks one layer, repairs the previous one, and prints what doctor reports on both ends. Null
   * only repairs.
   */
  doctor(fault: Fault | null): Promise<void>;
  stop(): Promise<void>;
}

interface DemoMachine {
  client: Client;
  node: Node;
  /** The process of the machine's agent. */
  pid: number;
}

const pool = 'demo';
const staleSeconds = 3;
const timeout_seconds = 5;
const plain = (_tone: string, text: string) => text;
const isProxyFault = (fault: Fault | null): fault is ProxyFault => proxyFaults.some((name) => name === fault);

async function poll<T>(read: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await read();
    if (answer !== undefined) return answer;
    await pause(systemClock, 200);
  }
}

async function startMachine(client: Client): Promise<Node> {
  const heartbeat = { interval_seconds: 1, stale_after_seconds: staleSeconds };
  const document = { driver: 'local', heartbeat, spec: { command: ['sleep', 'infinity'] } };
  await client.call('pool-put', { params: { pool }, body: document });
  await client.call('allocation-create', { body: { pool } });
  return poll(async () => {
    const { items } = await client.call('node-list', { query: { pool, status: 'ready' } });
    return items[0];
  });
}

const act = (client: Client, id: string, action: 'drain' | 'undrain') =>
  client.call('node-act', { params: { id, action }, body: { reason: 'to see what doctor reports' } });

/** How to break and repair the faults outside the proxy. */
const machineFaults: Partial<
  Record<Fault, { break(machine: DemoMachine): Promise<unknown>; repair(machine: DemoMachine): Promise<unknown> }>
> = {
  fence: {
    break: ({ client, node }) => act(client, node.node_id, 'drain'),
    repair: ({ client, node }) => act(client, node.node_id, 'undrain'),
  },
  heartbeat: {
    async break({ pid }) {
      process.kill(pid, 'SIGSTOP');
      await pause(systemClock, (staleSeconds + 1) * 1000);
    },
    repair: async ({ pid }) => process.kill(pid, 'SIGCONT'),
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
  const node = await startMachine(client);
  const directory = join(data_dir, 'nodes', node.node_instance_id ?? '');
  const { pid } = JSON.parse(await readFile(join(directory, 'launch.json'), 'utf8'));
  const machine: DemoMachine = { client, node, pid };
  const config = join(directory, 'agent.json');

  say(
    [
      '',
      `  Server      ${proxy.url}`,
      `  Token       in ${server.admin_token_path}`,
      `  Authority   ${ca_file}`,
      `  Machine     ${node.node_id}`,
      '',
      `  Examine     ./bin/slipway doctor ${node.node_id} --server ${proxy.url} --data-dir ${data_dir} --ca ${ca_file}`,
      `  On the machine   ./bin/slipway agent doctor --config ${config}`,
      '',
    ].join('\n'),
  );

  const examineAsOperator = async (fault: Fault | null) => {
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

  let activeFault: Fault | null = null;
  const breakLayer = async (fault: Fault | null) => {
    if (activeFault !== null) await machineFaults[activeFault]?.repair(machine);
    await proxy.break(null);
    // Waits for the repair, because doctor would otherwise still report the previous fault.
    await poll(async () => {
      const { checks } = await client.call('node-checkup', { params: { id: node.node_id } });
      return checks.every(({ ok }) => ok) || undefined;
    });
    if (isProxyFault(fault)) await proxy.break(fault);
    if (fault !== null) await machineFaults[fault]?.break(machine);
    activeFault = fault;
  };

  return {
    async doctor(fault) {
      await breakLayer(fault);
      say(
        fault === null
          ? '\nEvery layer is repaired. Doctor reports to an operator:'
          : `\n${fault} is broken. Doctor reports to an operator:`,
      );
      await examineAsOperator(fault);
      // These faults affect only the operator, so the machine has nothing to report.
      if (fault === 'dns' || fault === 'credential') return;
      say('\nDoctor reports on the machine:');
      await agentDoctor(
        ['--config', config, '--patience', String(timeout_seconds)],
        {},
        { clock: systemClock, out: say, err: say },
      );
    },
    async stop() {
      await breakLayer(null);
      process.kill(pid, 'SIGTERM');
      await server.stop();
      await proxy.stop();
    },
  };
}
