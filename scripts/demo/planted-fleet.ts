/**
 * A small fleet with planted faults, created through the public API with real machines, so that
 * every page shows real data: healthy machines, slow boots, one that never becomes ready, failing
 * releases, a crash loop, a quarantined node.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Allocation } from '../../src/contract/allocation.ts';
import { type Client, RequestRefused } from '../../src/contract/client.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import type { AllocationStatus } from '../../src/lifecycle/model/states.ts';

type Document = PoolDocument & { driver: string };

const heartbeat = { interval_seconds: 2 };
const refusesToClean = { command: ['sleep', 'infinity'], clean: 'echo "no space left on device" >&2; exit 1' };

export const plantedPools: Record<string, Document> = {
  web: {
    driver: 'local',
    zone: 'eu-1',
    heartbeat,
    spec: {
      command: ['sh', '-c', 'echo serving on :8080; exec sleep infinity'],
      boot_stages: [
        { name: 'pull-image', seconds: 0.5 },
        { name: 'unpack', seconds: 0.3 },
        { name: 'warm-up', seconds: 0.2 },
      ],
    },
  },
  'slow-boot': {
    driver: 'local',
    zone: 'eu-2',
    heartbeat,
    spec: { setup: 'echo pulling 14 GiB of weights; sleep 90' },
  },
  stuck: { driver: 'external', zone: 'eu-2', heartbeat, budgets: { start_seconds: 3600 } },
  'crash-loop': {
    driver: 'local',
    zone: 'eu-1',
    heartbeat,
    attempts: 3,
    budgets: { rescue_seconds: 3600 },
    spec: { setup: 'echo "libcuda.so.1: cannot open shared object file" >&2; exit 1' },
  },
  leaky: {
    driver: 'local',
    zone: 'eu-1',
    heartbeat,
    release: { step_tries: 1, retry_base_seconds: 600, max_retries: 0 },
    spec: refusesToClean,
  },
  flaky: {
    driver: 'local',
    zone: 'eu-1',
    heartbeat,
    release: { step_tries: 1, retry_base_seconds: 600 },
    spec: refusesToClean,
  },
};

const lookMs = 200;

async function becomes(client: Client, id: string, status: AllocationStatus): Promise<Allocation> {
  for (;;) {
    const allocation = await client.call('allocation-get', { params: { id } });
    if (allocation.status === status) return allocation;
    await pause(systemClock, lookMs);
  }
}

const ask = async (client: Client, pool: string, name: string): Promise<string> => {
  const { allocation } = await client.call('allocation-create', { body: { pool, name } });
  return allocation.allocation_id;
};

const askAndGet = async (client: Client, pool: string, name: string): Promise<Allocation> =>
  becomes(client, await ask(client, pool, name), 'active');

async function failingRelease(client: Client, pool: string, name: string): Promise<Allocation> {
  const { allocation_id: id } = await askAndGet(client, pool, name);
  await client.call('allocation-release', { params: { id } });
  return becomes(client, id, 'release_failed');
}

async function setAside(client: Client, pool: string, name: string): Promise<void> {
  const { node_id } = await askAndGet(client, pool, name);
  if (!node_id) throw new Error(`${name} is active and has no machine`);
  await client.call('node-act', {
    params: { id: node_id, action: 'quarantine' },
    body: { reason: 'its answers differ from those of the others' },
  });
}

async function forced(client: Client, pool: string, name: string): Promise<void> {
  const { allocation_id: id } = await failingRelease(client, pool, name);
  await client.call('allocation-act', {
    params: { id, action: 'force-release' },
    body: { reason: 'the tenant waits; the disk is looked at tomorrow' },
  });
}

async function givenUp(client: Client, pool: string, name: string): Promise<void> {
  await becomes(client, await ask(client, pool, name), 'failed');
}

export interface Served {
  client: Client;
  /** A client with another token. */
  as(token: string): Client;
}

/** An overloaded server counts such a heartbeat and only asks for fewer. */
function ignoreSlowDown(error: unknown): void {
  if (!(error instanceof RequestRefused) || error.problem.code !== 'beats_slow_down') throw error;
}

/** A machine that registers and beats but never reports ready, for as long as the demo runs. */
async function neverReady({ client, as }: Served, ended: AbortSignal): Promise<void> {
  const { enrollment_token } = await client.call('node-create', { body: { pool: 'stuck', name: 'notebook-2' } });
  // It authenticates with its enrolment token only.
  const { credential } = await as('').call('agent-register', { body: { enrollment_token, version: 'demo' } });
  if (!credential) throw new Error('the machine that never is ready was given no credential');
  const agent = as(credential);
  const beat = async () => {
    while (!ended.aborted) {
      await agent
        .call('agent-heartbeat', { body: { status: 'starting', message: 'loading 14 GiB of weights' } })
        .catch(ignoreSlowDown);
      await pause(systemClock, heartbeat.interval_seconds * 1000, ended);
    }
  };
  void beat().catch((error) => {
    if (!ended.aborted) throw error;
  });
}

/** Resolves when every fault is visible; slow and stuck boots are still in progress then. */
export async function plantFleet(server: Served, ended: AbortSignal): Promise<void> {
  const { client } = server;
  for (const [pool, body] of Object.entries(plantedPools)) await client.call('pool-put', { params: { pool }, body });
  const onTheirWay = [
    ['slow-boot', 'train-7'],
    ['slow-boot', 'train-8'],
  ] as const;
  await Promise.all([
    neverReady(server, ended),
    ...onTheirWay.map(([pool, name]) => ask(client, pool, name)),
    ...['shop', 'search', 'mail', 'cart'].map((name) => askAndGet(client, 'web', name)),
    setAside(client, 'web', 'ads'),
    failingRelease(client, 'leaky', 'batch-3'),
    failingRelease(client, 'flaky', 'batch-4'),
    forced(client, 'leaky', 'batch-5'),
    givenUp(client, 'crash-loop', 'render-1'),
  ]);
}
