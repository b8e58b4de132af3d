/**
 * Measures the effect of hostile callers on an honest tenant. A machine, a tenant and a caller
 * without credentials send many kinds of requests at full speed to a server with its embedded
 * database. Compares the growth of the database with the most that the limits allow, and the
 * latency of the honest tenant with its latency in quiet times before and after the attack.
 */
import { readdirSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { defaultLimits, type WriteQuota } from '../../src/lifecycle/limits/limits.ts';
import { freshDirectory, registerCleanup, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, quantile, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startReplica } from '../harness/server-process.ts';
import type { AttackResult, AttackSettings } from './attackers.ts';

const options = readOptions(import.meta.url, {
  duration: 'about fifteen minutes; with --quick two',
  options: {
    json: common.json,
    quick: common.quick,
    seconds: { kind: 'count', description: 'length of the attack in seconds (600; with --quick 40)' },
    connections: { kind: 'count', default: 8, description: 'connections of each attacker' },
  },
});
const attackSeconds = options.seconds ?? (options.quick ? 40 : 600);
/**
 * How long calls are measured without an attack: half of it before the attack and half after it,
 * because reads take longer as the store grows, also without an attack.
 */
const quietSeconds = Math.max(20, Math.round(attackSeconds / 3));
const settleMs = 3_000;
const maxRequests = 5_000_000;
/** Long enough that the probe itself causes hardly any load. */
const probeEveryMs = 250;
const token = 'swt_only-for-the-benchmarks-0123456789';
const pool = 'shared';
/**
 * The hostile tenant uses a pool of its own, because this benchmark does not measure the limit on
 * allocations per tenant.
 */
const hostilePool = 'hostile';
const activeTimeoutMs = 60_000;
/** Short compared with the measured times, so that polling adds little to them. */
const pollMs = 3;
const targetRatio = 1.5;
/**
 * Few enough that the page is full from the start. A larger page would fill up during the run, as
 * the honest tenant gets more allocations.
 */
const pageItems = 5;
/** Higher quantiles have too few samples in the quiet time; p99 is printed without a target. */
const targetShares: readonly number[] = [0.5, 0.95];

const say = (message: string) => process.stderr.write(`${message}\n`);

/**
 * The size of the database files. The write-ahead log counts separately, because it is recycled.
 */
function storedBytes(directory: string, isWal = false): { data: number; wal: number } {
  const sum = { data: 0, wal: 0 };
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    try {
      if (entry.isDirectory()) {
        const inside = storedBytes(path, isWal || entry.name === 'pg_wal');
        sum.data += inside.data;
        sum.wal += inside.wal;
      } else sum[isWal ? 'wal' : 'data'] += statSync(path).size;
    } catch (error) {
      // The database may remove a file between listing and reading.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return sum;
}

/** A row takes about twice the size charged to its quota: indexes, old versions and dead rows. */
const storedPerCharged = 2;
/** The most that callers with these quotas can add to the database. */
const maxGrowth = (quotas: WriteQuota[], seconds: number) =>
  storedPerCharged * quotas.reduce((sum, { bytes, bytes_per_second }) => sum + bytes + seconds * bytes_per_second, 0);

type Latencies = Record<'allocation list' | 'node read' | 'explain' | 'allocate until active', number[]>;

const noLatencies = (): Latencies => ({
  ...{ 'allocation list': [], 'node read': [], explain: [], 'allocate until active': [] },
});

function addLatencies(to: Latencies, more: Latencies): void {
  for (const [what, latencies] of Object.entries(more)) to[what as keyof Latencies].push(...latencies);
}

const loadBefore = loadavg();
const directory = await freshDirectory();
try {
  const data = join(directory, 'data');
  const server = await startReplica(data, [], { SLIPWAY_ADMIN_TOKEN: token });
  const clientOf = (bearer: string): Client => createClient({ base_url: server.url, token: bearer, addresses: routes });
  const admin = clientOf(token);
  // The honest tenant allocates at most one machine in two seconds; half as many again are spare.
  const freeMachines = Math.ceil((1.5 * (2 * quietSeconds + attackSeconds)) / 2);
  const joinTokens = new Map<string, string>();
  for (const name of [pool, hostilePool]) {
    const body = { driver: 'external', heartbeat: { stale_after_seconds: 86_400 } } as const;
    await admin.call('pool-put', { params: { pool: name }, body });
    const { token: join_token = '' } = await admin.call('join-token-create', { params: { pool: name } });
    joinTokens.set(name, join_token);
  }

  const enrol = async (name: string, into = pool) => {
    const join_token = joinTokens.get(into);
    const reply = await fetch(`${server.url}/v1/agent/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ join_token, name, version: 'bench' }),
    });
    if (!reply.ok) throw new Error(`registration of ${name} failed: ${await reply.text()}`);
    const { credential, node_id } = (await reply.json()) as { credential: string; node_id: string };
    await fetch(`${server.url}/v1/agent/heartbeat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
      body: JSON.stringify({ status: 'ready' }),
    });
    return { credential, node_id };
  };
  const allocate = async (client: Client, from: string) => {
    const { allocation } = await client.call('allocation-create', { body: { pool: from } });
    const giveUpMs = systemClock.monotonicMs() + activeTimeoutMs;
    for (;;) {
      const current = await client.call('allocation-get', { params: { id: allocation.allocation_id } });
      if (current.status === 'active') return current;
      if (systemClock.monotonicMs() > giveUpMs)
        throw new Error(`an allocation is not active within a minute: ${JSON.stringify(current)}`);
      await pause(systemClock, pollMs);
    }
  };
  const createTenant = async (tenant: string, from: string) => {
    const { token: bearer = '' } = await admin.call('token-create', {
      body: { name: tenant, role: 'operator', tenant },
    });
    const client = clientOf(bearer);
    return { bearer, client, allocation: await allocate(client, from) };
  };

  say(`registering ${freeMachines + 3} machines`);
  await Promise.all([enrol('first'), enrol('second', hostilePool)]);
  const honest = await createTenant('good', pool);
  const hostile = await createTenant('hostile', hostilePool);
  // The hostile machine registers only now, so that the honest tenant's allocation above, whose
  // machine `probe` reads, cannot get it.
  const hostileMachine = await enrol('hostile-machine');
  for (let index = 0; index < freeMachines; index++) await enrol(`free-${index}`);

  const measureLatency = async (into: number[], work: () => Promise<unknown>) => {
    const startedMs = systemClock.monotonicMs();
    await work();
    into.push(systemClock.monotonicMs() - startedMs);
  };
  /** Measures the calls of the honest tenant, one at a time. */
  const probe = async (seconds: number): Promise<Latencies> => {
    const latencies = noLatencies();
    const params = { id: honest.allocation.node_id ?? '' };
    const endMs = systemClock.monotonicMs() + 1000 * seconds;
    for (let turn = 0; systemClock.monotonicMs() < endMs; turn++) {
      await measureLatency(latencies['allocation list'], () =>
        honest.client.call('allocation-list', { query: { limit: pageItems } }),
      );
      await measureLatency(latencies['node read'], () => honest.client.call('node-get', { params }));
      await measureLatency(latencies.explain, () => honest.client.call('node-explain', { params }));
      if (turn % 8 === 0) await measureLatency(latencies['allocate until active'], () => allocate(honest.client, pool));
      await pause(systemClock, probeEveryMs);
    }
    return latencies;
  };

  const attackFor = async (seconds: number): Promise<AttackResult> => {
    const settings: AttackSettings = {
      ...{ url: server.url, seconds, connections: options.connections, maxRequests },
      machine: hostileMachine,
      tenant: { token: hostile.bearer, pool: hostilePool, allocation_id: hostile.allocation.allocation_id },
    };
    const worker = new Worker(new URL('./attackers.ts', import.meta.url), { workerData: settings });
    const endWorker = registerCleanup(() => worker.terminate());
    try {
      return await new Promise<AttackResult>((resolve, reject) => {
        worker.once('message', resolve);
        worker.once('error', reject);
      });
    } finally {
      await endWorker();
    }
  };

  // Warm up: the first calls are slower.
  await probe(Math.min(20, quietSeconds));
  say(`measuring without an attack for ${quietSeconds / 2} s`);
  const quiet = await probe(quietSeconds / 2);
  const before = storedBytes(data);
  say(`measuring under attack for ${attackSeconds} s`);
  const [attacked, attack] = await Promise.all([probe(attackSeconds), attackFor(attackSeconds)]);
  const after = storedBytes(data);
  // The server works off the backlog of the attack before the next measurement.
  await pause(systemClock, settleMs);
  say(`measuring without an attack for ${quietSeconds / 2} s`);
  addLatencies(quiet, await probe(quietSeconds / 2));
  await server.stop();

  say(`answers to the attackers, by status: ${JSON.stringify(attack.answers)}`);
  const mb = (bytes: number) => bytes / 1024 / 1024;
  const { instance, tenant, anonymous } = defaultLimits;
  const ratios = (Object.keys(quiet) as (keyof Latencies)[]).flatMap((what): Figure[] =>
    [...targetShares, 0.99].flatMap((share): Figure[] => [
      { what: `${what}, p${100 * share}, quiet`, value: quantile(quiet[what], share), unit: 'ms' },
      { what: `${what}, p${100 * share}, under attack`, value: quantile(attacked[what], share), unit: 'ms' },
      {
        what: '… under attack / quiet (baseline)',
        value: quantile(attacked[what], share) / quantile(quiet[what], share),
        unit: '×',
        ...(targetShares.includes(share) && { target: targetRatio }),
      },
    ]),
  );
  report(
    options,
    'hostile',
    [
      { what: `hostile requests in ${attackSeconds} s`, value: attack.requests, unit: '' },
      {
        what: 'growth of the database, without its write-ahead log',
        value: mb(after.data - before.data),
        unit: 'MB',
        target: mb(maxGrowth([instance, tenant, anonymous], attackSeconds)),
      },
      { what: '… growth of the write-ahead log', value: mb(after.wal - before.wal), unit: 'MB' },
      ...ratios,
    ],
    loadBefore,
  );
} finally {
  await removeDirectory(directory);
}
