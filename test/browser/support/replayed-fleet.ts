/**
 * A fleet of any size in front of the real console: the built files, nodes page by page, and changes over a real event
 * stream. What a server would have to do for fifty thousand machines is measured elsewhere; this is about the browser.
 */
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Evidence } from '../../../src/contract/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { Overview } from '../../../src/contract/overview.ts';
import type { Brake, SweepRuns } from '../../../src/contract/supervision.ts';
import type { Session } from '../../../src/contract/token.ts';
import type { NodeStatus } from '../../../src/lifecycle/states.ts';

const built = fileURLToPath(new URL('../../../dist/console', import.meta.url));
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

const pools = ['web', 'gpu', 'edge', 'batch', 'cache'];
const at = '2026-01-01T00:00:00.000Z';
/** Mostly well, as fleets are; one change in ten is for the worse. */
const statuses: NodeStatus[] = [
  'ready',
  'ready',
  'degraded',
  'ready',
  'offline',
  'ready',
  'starting',
  'ready',
  'failed',
];

const nodeOf = (i: number, status: NodeStatus): Node => ({
  node_id: `node_${String(i).padStart(8, '0')}`,
  node_instance_id: `inst_${String(i).padStart(8, '0')}`,
  pool: pools[i % pools.length] ?? 'web',
  name: `machine-${i}`,
  zone: `eu-${i % 3}`,
  status,
  status_since: at,
  occupancy: 'occupied',
  fenced: false,
  fence_reason: null,
  allocation_id: `alloc_${i}`,
  workflow_id: null,
  registered_at: at,
  last_seen_at: at,
  deadline_at: status === 'starting' ? '2099-01-01T00:00:00.000Z' : null,
  budget_seconds: null,
  budget_source: null,
  endpoint: null,
  reported: { status: 'ready', health_score: 100 },
  observed: { state: 'running', at },
  held: null,
  verdict: { rule: 'liveness', reason: 'silent for 30 s', at },
  would_have: null,
  waiting_for: null,
  restarts: 0,
  labels: { rack: `r${i % 40}` },
  created_at: at,
});

const factOf = (node: Node, seq: number): Evidence => ({
  cursor: `${seq}-1`,
  at,
  layer: 'rule',
  kind: `node.${node.status}`,
  summary: `now ${node.status}`,
  data: {},
  actor: null,
  node_id: node.node_id,
  node_instance_id: node.node_instance_id,
  correlation_id: null,
  allocation_id: node.allocation_id,
  workflow_id: null,
});

const session: Session = {
  token_id: 'tok_1',
  name: 'replay',
  role: 'admin',
  tenant: null,
  expires_at: null,
  installation_id: 'replay',
  version: '0',
};
const overview: Overview = {
  at,
  nodes: {},
  allocations: {},
  operations: {},
  pools: pools.length,
  held: 0,
  never_ready: [],
  findings: {},
  replicas: [],
};
const brake: Brake = { at, holding: false, held: [], holds: [], gaps: [], heard_through: at, maintenance: [] };
const sweeps: SweepRuns = { replica_id: 'replay', items: [] };
const fixed: Record<string, unknown> = {
  '/v1/session': session,
  '/v1/overview': overview,
  '/v1/brake': brake,
  '/v1/sweeps': sweeps,
};

export interface ReplayedFleet {
  url: string;
  /** So many changes a second, for so long; each is a node and the fact that tells of it, as a server sends them. */
  change(per_second: number, seconds: number): Promise<number>;
  stop(): Promise<void>;
}

export async function replayedFleet(count: number): Promise<ReplayedFleet> {
  const fleet = Array.from({ length: count }, (_, i) => nodeOf(i, 'ready'));
  const streams = new Set<ServerResponse>();
  let sent = 0;

  const nodes = (query: URLSearchParams) => {
    const all = query.get('status') === 'ready' ? fleet : [];
    const from = Number(query.get('cursor') ?? 0);
    const to = from + Number(query.get('limit') ?? 500);
    return { items: all.slice(from, to), next_cursor: to < all.length ? String(to) : null };
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://replay');
    if (pathname === '/v1/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('id: 0-1\nevent: position\ndata: {}\n\n');
      streams.add(response);
      response.on('close', () => streams.delete(response));
      return;
    }
    if (pathname.startsWith('/v1/')) {
      const body =
        pathname === '/v1/nodes' ? nodes(searchParams) : (fixed[pathname] ?? { items: [], next_cursor: null });
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return;
    }
    const file = extname(pathname) ? pathname : '/index.html';
    const type = types[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type }).end(await readFile(join(built, file)));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const event = (name: string, value: unknown, id = '') => `${id}event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
  const sendSome = (some: number): void => {
    let text = '';
    for (let i = 0; i < some; i++) {
      sent++;
      // A prime apart, so that changes fall all over the fleet and come back to where they were.
      const node = nodeOf((sent * 7919) % count, statuses[sent % statuses.length] ?? 'ready');
      text += event('node', node) + event('evidence', factOf(node, sent), `id: ${sent}-1\n`);
    }
    for (const stream of streams) stream.write(text);
  };

  const tickMs = 20;
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async change(per_second, seconds) {
      const before = sent;
      const begunMs = systemClock.nowMs();
      for (let passedMs = 0; passedMs < seconds * 1000; passedMs = systemClock.nowMs() - begunMs) {
        sendSome(Math.max(0, Math.round((passedMs / 1000) * per_second) - (sent - before)));
        await pause(systemClock, tickMs);
      }
      return sent - before;
    },
    async stop() {
      for (const stream of streams) stream.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
