/**
 * The effect of one hostile machine, tenant and stranger on others: all three write in every way at
 * full speed against a server with its embedded database. Compares disk growth with the bound of
 * the limits, and latency of other callers with quiet times before and after.
 */
import { readdirSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { defaultLimits, type WriteQuota } from '../../src/lifecycle/limits/limits.ts';
import { freshDirectory, removeDirectory, whenOver } from '../harness/leftovers.ts';
import { type Figure, quantile, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startReplica } from '../harness/server-process.ts';
import type { Orders, Sent } from './attackers.ts';

const options = readOptions(import.meta.url, {
  takes: 'about fifteen minutes, with --quick two',
  options: {
    json: common.json,
    quick: common.quick,
    seconds: { kind: 'count', what: 'how long the attack lasts (600, with --quick 40)' },
    connections: { kind: 'count', otherwise: 8, what: 'connections of each attacker' },
  },
});
const attackSeconds = options.seconds ?? (options.quick ? 40 : 600);
/** Half before and half after the attack: the store keeps growing, and reads take longer. */
const quietSeconds = Math.max(20, Math.round(attackSeconds / 3));
const settleMs = 3_000;
const maxRequests = 5_000_000;
/** Rare, so that the probe is one caller and not additional load. */
const probeEveryMs = 250;
const token = 'swt_of-the-bench-and-of-nobody-else';
const pool = 'shared';
/**
 * The hostile tenant uses another pool, because the allocation limit per tenant is not measured
 * here.
 */
const hostilePool = 'hostile';
const activeWithinMs = 60_000;
/** Short compared with the measured times; otherwise one more poll would double them. */
const pollMs = 3;
const targetRatio = 1.5;
/** Few enough that the page is full from the start: the honest tenant's allocations grow. */
const pageItems = 5;
/** Higher quantiles have too few samples in the quiet time; p99 is printed without a target. */
const targetShares: readonly number[] = [0.5, 0.95];

const say = (what: string) => process.stderr.write(`${what}\n`);

/** All files of the database except the write-ahead log, which is recycled. */
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
      // The database creates and removes files meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return sum;
}

/** A row takes about twice its charged size: indexes, updated rows, and dead rows before vacuum. */
const storedPerCharged = 2;
const boundOf = (quotas: WriteQuota[], seconds: number) =>
  storedPerCharged * quotas.reduce((sum, { bytes, bytes_per_second }) => sum + bytes + seconds * bytes_per_second, 0);

type Latencies = Record<'allocation list' | 'node read' | 'explain' | 'allocate until active', number[]>;

const noLatencies = (): Latencies => ({
  ...{ 'allocation list': [], 'node read': [], explain: [], 'allocate until active': [] },
});

function add(to: Latencies, more: Latencies): void {
  for (const [what, taken] of Object.entries(more)) to[what as keyof Latencies].push(...taken);
}

const loadBefore = loadavg();
const directory = await freshDirectory();
try {
  const data = join(directory, 'data');
  const server = await startReplica(data, [], { SLIPWAY_ADMIN_TOKEN: token });
  const as = (bearer: string): Client => createClient({ base_url: server.url, token: bearer, addresses: routes });
  const admin = as(token);
  const free = Math.ceil((1.5 * (2 * quietSeconds + attackSeconds)) / 2);
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
    if (!reply.ok) throw new Error(`${name} was not registered: ${await reply.text()}`);
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
    const lateMs = systemClock.monotonicMs() + activeWithinMs;
    for (;;) {
      const now = await client.call('allocation-get', { params: { id: allocation.allocation_id } });
      if (now.status === 'active') return now;
      if (systemClock.monotonicMs() > lateMs) throw new Error(`not active within a minute: ${JSON.stringify(now)}`);
      await pause(systemClock, pollMs);
    }
  };
  const tenantOf = async (tenant: string, from: string) => {
    const { token: bearer = '' } = await admin.call('token-create', {
      body: { name: tenant, role: 'operator', tenant },
    });
    const client = as(bearer);
    return { bearer, client, allocation: await allocate(client, from) };
  };

  say(`${free + 3} machines register`);
  await Promise.all([enrol('first'), enrol('second', hostilePool)]);
  const good = await tenantOf('good', pool);
  const hostile = await tenantOf('hostile', hostilePool);
  // After the honest tenant has its machine, so that it does not get the flooding one.
  const flooder = await enrol('flooder');
  for (let index = 0; index < free; index++) await enrol(`free-${index}`);

  const timed = async (into: number[], work: () => Promise<unknown>) => {
    const startedMs = systemClock.monotonicMs();
    await work();
    into.push(systemClock.monotonicMs() - startedMs);
  };
  /** One honest tenant, one call at a time. */
  const probe = async (seconds: number): Promise<Latencies> => {
    const taken = noLatencies();
    const params = { id: good.allocation.node_id ?? '' };
    const endMs = systemClock.monotonicMs() + 1000 * seconds;
    for (let turn = 0; systemClock.monotonicMs() < endMs; turn++) {
      await timed(taken['allocation list'], () => good.client.call('allocation-list', { query: { limit: pageItems } }));
      await timed(taken['node read'], () => good.client.call('node-get', { params }));
      await timed(taken.explain, () => good.client.call('node-explain', { params }));
      if (turn % 8 === 0) await timed(taken['allocate until active'], () => allocate(good.client, pool));
      await pause(systemClock, probeEveryMs);
    }
    return taken;
  };

  const attackFor = async (seconds: number): Promise<Sent> => {
    const orders: Orders = {
      ...{ url: server.url, seconds, connections: options.connections, maxRequests },
      machine: flooder,
      tenant: { token: hostile.bearer, pool: hostilePool, allocation_id: hostile.allocation.allocation_id },
    };
    const worker = new Worker(new URL('./attackers.ts', import.meta.url), { workerData: orders });
    const endWorker = whenOver(() => worker.terminate());
    try {
      return await new Promise<Sent>((resolve, reject) => {
        worker.once('message', resolve);
        worker.once('error', reject);
      });
    } finally {
      await endWorker();
    }
  };

  // The first calls are slower and would distort the quiet time.
  await probe(Math.min(20, quietSeconds));
  say(`quiet for ${quietSeconds / 2} s`);
  const quiet = await probe(quietSeconds / 2);
  const before = storedBytes(data);
  say(`attacked for ${attackSeconds} s`);
  const [attacked, sent] = await Promise.all([probe(attackSeconds), attackFor(attackSeconds)]);
  const after = storedBytes(data);
  // Let the backlog of the attack drain before measuring.
  await pause(systemClock, settleMs);
  say(`quiet for ${quietSeconds / 2} s`);
  add(quiet, await probe(quietSeconds / 2));
  await server.stop();

  say(`answers: ${JSON.stringify(sent.answers)}`);
  const mb = (bytes: number) => bytes / 1024 / 1024;
  const { instance, tenant, anonymous } = defaultLimits;
  const ratios = (Object.keys(quiet) as (keyof Latencies)[]).flatMap((what): Figure[] =>
    [...targetShares, 0.99].flatMap((share): Figure[] => [
      { what: `${what}, p${100 * share}, quiet`, value: quantile(quiet[what], share), unit: 'ms' },
      { what: `${what}, p${100 * share}, attacked`, value: quantile(attacked[what], share), unit: 'ms' },
      {
        what: '… attacked / quiet',
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
      { what: `hostile requests in ${attackSeconds} s`, value: sent.requests, unit: '' },
      {
        what: 'the database grew, without its write-ahead log',
        value: mb(after.data - before.data),
        unit: 'MB',
        target: mb(boundOf([instance, tenant, anonymous], attackSeconds)),
      },
      { what: '… its write-ahead log', value: mb(after.wal - before.wal), unit: 'MB' },
      ...ratios,
    ],
    loadBefore,
  );
} finally {
  await removeDirectory(directory);
}
