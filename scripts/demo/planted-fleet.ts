/**
 * Creates a small fleet with planted faults through the public API, so that every page of the
 * console shows real data: healthy machines, slow boots, a machine that never becomes ready, failed
 * releases, a crash loop and a quarantined node.
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

const pollMs = 200;

async function waitForStatus(client: Client, id: string, status: AllocationStatus): Promise<Allocation> {
  for (;;) {
    const allocation = await client.call('allocation-get', { params: { id } });
    if (allocation.status === status) return allocation;
    await pause(systemClock, pollMs);
  }
}

const allocate = async (client: Client, pool: string, name: string): Promise<string> => {
  const { allocation } = await client.call('allocation-create', { body: { pool, name } });
  return allocation.allocation_id;
};

const allocateAndWait = async (client: Client, pool: string, name: string): Promise<Allocation> =>
  waitForStatus(client, await allocate(client, pool, name), 'active');

async function failRelease(client: Client, pool: string, name: string): Promise<Allocation> {
  const { allocation_id: id } = await allocateAndWait(client, pool, name);
  await client.call('allocation-release', { params: { id } });
  return waitForStatus(client, id, 'release_failed');
}

async function quarantineMachine(client: Client, pool: string, name: string): Promise<void> {
  const { node_id } = await allocateAndWait(client, pool, name);
  if (!node_id) throw new Error(`${name} is active but has no machine`);
  await client.call('node-act', {
    params: { id: node_id, action: 'quarantine' },
    body: { reason: 'its answers differ from those of other machines' },
  });
}

async function forceRelease(client: Client, pool: string, name: string): Promise<void> {
  const { allocation_id: id } = await failRelease(client, pool, name);
  await client.call('allocation-act', {
    params: { id, action: 'force-release' },
    body: { reason: 'the tenant waits; the disk will be checked tomorrow' },
  });
}

async function waitUntilFailed(client: Client, pool: string, name: string): Promise<void> {
  await waitForStatus(client, await allocate(client, pool, name), 'failed');
}

export interface PlantTarget {
  client: Client;
  /** Makes a client with another token. */
  as(token: string): Client;
}

/** Ignores a request for fewer heartbeats: the server has still counted this one. */
function ignoreSlowDown(error: unknown): void {
  if (!(error instanceof RequestRefused) || error.problem.code !== 'beats_slow_down') throw error;
}

/** Runs a machine that registers and sends heartbeats, but never reports ready. */
async function runNeverReadyMachine({ client, as: clientFor }: PlantTarget, ended: AbortSignal): Promise<void> {
  const { enrollment_token } = await client.call('node-create', { body: { pool: 'stuck', name: 'notebook-2' } });
  // The machine authenticates with its enrolment token only, so the client has no token.
  const { credential } = await clientFor('').call('agent-register', { body: { enrollment_token, version: 'demo' } });
  if (!credential) throw new Error('the machine that never becomes ready got no credential');
  const agent = clientFor(credential);
  const sendHeartbeats = async () => {
    while (!ended.aborted) {
      await agent
        .call('agent-heartbeat', { body: { status: 'starting', message: 'loading 14 GiB of weights' } })
        .catch(ignoreSlowDown);
      await pause(systemClock, heartbeat.interval_seconds * 1000, ended);
    }
  };
  void sendHeartbeats().catch((error) => {
    if (!ended.aborted) throw error;
  });
}

/** Resolves when every fault is visible. The slow and stuck boots are still in progress then. */
export async function plantFleet(server: PlantTarget, ended: AbortSignal): Promise<void> {
  const { client } = server;
  for (const [pool, body] of Object.entries(plantedPools)) await client.call('pool-put', { params: { pool }, body });
  const slowBoots = [
    ['slow-boot', 'train-7'],
    ['slow-boot', 'train-8'],
  ] as const;
  await Promise.all([
    runNeverReadyMachine(server, ended),
    ...slowBoots.map(([pool, name]) => allocate(client, pool, name)),
    ...['shop', 'search', 'mail', 'cart'].map((name) => allocateAndWait(client, 'web', name)),
    quarantineMachine(client, 'web', 'ads'),
    failRelease(client, 'leaky', 'batch-3'),
    failRelease(client, 'flaky', 'batch-4'),
    forceRelease(client, 'leaky', 'batch-5'),
    waitUntilFailed(client, 'crash-loop', 'render-1'),
  ]);
}
