/**
 * Toxiproxy disturbs the connections between the server and PostgreSQL, and between agents and the
 * server. No machine gets a verdict because of a network fault. Every operation continues within
 * `maxSeconds` after the fault ends.
 */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import { minReportedMs } from '../../src/engine/execute-run.ts';
import { allocationStatusNames, nodeStatusNames } from '../../src/lifecycle/model/states.ts';
import { awayAfterFailureMs } from '../../src/store/pg/connections/store-watch.ts';
import { allocate, declarePool, release, waitForStatuses } from '../support/allocations.ts';
import { testDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { isWhole, share, withOutsider } from './support/outsider.ts';
import { type FaultName, type FaultProxy, faults, startToxiproxy, type Toxiproxy } from './support/toxiproxy.ts';

/** The full run has the machine to itself. Under `npm test` other tests compete for the CPU. */
const maxSeconds = share(60, 5);
/** In the full run, a fault of the store outlasts the longest backoff between retries. */
const storeFaultSeconds = share(10, 40);
const maxUnnoticedSeconds = 60;
/**
 * The first 503 can come from a failed connection, before the store counts as away. The factor is
 * for a loaded server, which checks late.
 */
const secondsAfterNotice = (2 * (awayAfterFailureMs + minReportedMs)) / 1000;
/**
 * Well below the lease of a task, which is 15 s. An operation that waited for the lease of a lost
 * delivery to end would exceed `maxSeconds` in the full run.
 */
const agentFaultSeconds = share(10, 8);
/** Leases end during this fault. */
const longFaultSeconds = 40;
const machines = share(1, 3);
const pool = 'fleet';
/** Disables the brake, which would hold false verdicts back and hide them from the test. */
const poolDocument = (stale_after_seconds: number): Partial<PoolDocument> => ({
  heartbeat: { interval_seconds: 1, stale_after_seconds },
  brake: { fraction: 1, min_nodes: 1_000_000 },
  spec: { command: ['sleep', '600'], setup: 'sleep 1' },
});
const verdicts = ['node.offline', 'node.failed', 'node.quarantined', 'allocation.failed', 'operation.failed'];

interface Operation {
  workflow_id: string;
  kind: string;
}
interface OperationFact extends Operation {
  at: Date;
  summary: string;
}
const keyOf = ({ workflow_id, kind, at }: OperationFact) => `${workflow_id} ${kind} ${at.toISOString()}`;

/** Connects to PostgreSQL without the proxy, to read rows during a fault. */
async function connectDirectly(url: string) {
  const client = new Client({ connectionString: url });
  await client.connect();
  const query = async <R>(text: string, values: unknown[] = []) => (await client.query(text, values)).rows as R[];
  return {
    now: async () => (await query<{ now: Date }>('select clock_timestamp() as now'))[0]?.now as Date,
    readUnfinishedOperations: () =>
      query<Operation>('select workflow_id, kind from operations where finished_at is null'),
    readFacts: (operations: Operation[]) =>
      query<OperationFact>(
        `select workflow_id, at, kind, summary
           from evidence
          where workflow_id = any($1)
          order by at`,
        [operations.map(({ workflow_id }) => workflow_id)],
      ),
    readEvidence: (kinds: string[]) =>
      query<{ kind: string; summary: string }>('select kind, summary from evidence where kind = any($1)', [kinds]),
    end: () => client.end(),
  };
}
type DirectConnection = Awaited<ReturnType<typeof connectDirectly>>;

/**
 * Evidence of these kinds shows that an operation continued. Other kinds do not: a leased task may
 * be lost, and a deadline can move while nothing happens.
 */
const progressKinds: readonly string[] = [
  ...['task.succeeded', 'operation.succeeded', 'operation.cancelled', 'step.started'],
  ...nodeStatusNames.map((status) => `node.${status}`),
  ...allocationStatusNames.map((status) => `allocation.${status}`),
];

interface Continuation {
  kind: string;
  seconds: number;
}

/** Measures how long after the end of the fault each running operation took its next step. */
async function measureContinuations(
  store: DirectConnection,
  faultEndedAt: Date,
  operations: Operation[],
  earlierFacts: OperationFact[],
) {
  const earlierKeys = new Set(earlierFacts.map(keyOf));
  let facts: OperationFact[] = [];
  const isProgress = (fact: OperationFact) => !earlierKeys.has(keyOf(fact)) && progressKinds.includes(fact.kind);
  const readContinuations = async (): Promise<Continuation[] | undefined> => {
    facts = await store.readFacts(operations);
    const continuations = operations.map(({ workflow_id, kind }) => {
      const fact = facts.find((each) => each.workflow_id === workflow_id && isProgress(each));
      return fact && { kind, seconds: Math.max(0, (fact.at.getTime() - faultEndedAt.getTime()) / 1000) };
    });
    return continuations.includes(undefined) ? undefined : (continuations as Continuation[]);
  };
  try {
    return await until('every operation to continue', readContinuations);
  } catch (cause) {
    const stuckOperations = operations.filter(
      ({ workflow_id }) => !facts.some((fact) => fact.workflow_id === workflow_id && isProgress(fact)),
    );
    const facts_of_each = stuckOperations.map((each) => ({
      ...each,
      facts: facts.filter(({ workflow_id }) => workflow_id === each.workflow_id).slice(-10),
    }));
    throw new Error(`not every operation continued: ${JSON.stringify(facts_of_each)}`, { cause });
  }
}

interface Figures {
  connection: string;
  fault: string;
  fault_seconds: number;
  operations: number;
  median_seconds: number;
  worst_seconds: number;
  false_verdicts: number;
}
const figures: Figures[] = [];

interface Fault {
  /** Overrides the usual duration. */
  seconds?: number;
  begin(proxy: FaultProxy): Promise<void>;
  /** True if no data passes during the fault. */
  isBlocking: boolean;
}

const toxic = (name: FaultName): Fault => ({
  begin: (proxy) => proxy.begin(faults[name]),
  isBlocking: name === 'resets' || name === 'half-open',
});
const outage: Fault = { begin: (proxy) => proxy.cut(), isBlocking: true };

const allFaults: Record<string, Fault> = {
  ...Object.fromEntries(Object.keys(faults).map((name) => [name, toxic(name as FaultName)])),
  outage,
};
const storeFaults = share<Record<string, Fault>>(
  { 'half-open': toxic('half-open'), latency: toxic('latency') },
  allFaults,
);
const agentFaults = share<Record<string, Fault>>(
  { 'half-open': toxic('half-open') },
  { ...allFaults, 'half-open for longer': { ...toxic('half-open'), seconds: longFaultSeconds } },
);

/** `npm test` runs the faults concurrently. The full run measures times, one fault at a time. */
const testFault = (name: string, run: () => Promise<void>) => (isWhole ? it : it.concurrent)(name, run, 240_000);

withOutsider('toxiproxy', ({ place }) => {
  let toxiproxy: Toxiproxy;
  beforeAll(async () => {
    toxiproxy = await startToxiproxy(place);
  });
  afterAll(async () => {
    await toxiproxy?.stop();
    console.table(figures);
  });

  interface Setup {
    connection: string;
    fault_seconds: number;
    stale_after_seconds: number;
    server: SpawnedServer;
    proxy: FaultProxy;
    store: DirectConnection;
  }

  async function runFault(
    { server, proxy, store, connection, fault_seconds, stale_after_seconds }: Setup,
    name: string,
    fault: Fault,
    meanwhile: () => Promise<void>,
  ) {
    const { client } = server;
    await declarePool(client, pool, poolDocument(stale_after_seconds));
    const initialIds = await Promise.all(Array.from({ length: 2 * machines }, () => allocate(client, pool)));
    await waitForStatuses(client, initialIds, 'active');
    const releasedIds = initialIds.slice(0, machines);
    const keptIds = initialIds.slice(machines);

    await Promise.all(releasedIds.map((id) => release(client, id)));
    const newIds = await Promise.all(Array.from({ length: machines }, () => allocate(client, pool)));
    // A run that starts during the fault reports no wait for the store. A provision lasts longer
    // than the machine's setup, so this one still runs when the fault begins.
    await until('a provision to execute a step', async () => {
      const operations = await store.readUnfinishedOperations();
      const facts = await store.readFacts(operations.filter(({ kind }) => kind === 'node-provision'));
      return facts.some(({ kind }) => kind === 'step.started');
    });
    await fault.begin(proxy);
    await Promise.all([pause(systemClock, fault_seconds * 1000), meanwhile()]);
    const operations = await store.readUnfinishedOperations();
    const earlierFacts = await store.readFacts(operations);
    await proxy.end();
    const faultEndedAt = await store.now();

    const continuations = await measureContinuations(store, faultEndedAt, operations, earlierFacts);
    const sortedSeconds = continuations.map(({ seconds }) => seconds).sort((a, b) => a - b);
    const worst = sortedSeconds.at(-1) ?? 0;
    await waitForStatuses(client, [...keptIds, ...newIds], 'active');
    await waitForStatuses(client, releasedIds, 'released');
    const false_verdicts = await store.readEvidence(verdicts);
    figures.push({
      ...{ connection, fault: name, fault_seconds, operations: continuations.length, worst_seconds: worst },
      median_seconds: sortedSeconds[Math.floor(sortedSeconds.length / 2)] ?? 0,
      false_verdicts: false_verdicts.length,
    });
    expect(false_verdicts, 'false verdicts').toEqual([]);
    if (fault.isBlocking) expect(continuations.length, 'operations that ran during the fault').toBeGreaterThan(0);
    expect(worst, JSON.stringify(continuations)).toBeLessThanOrEqual(maxSeconds);
  }

  async function withSetup(
    build: (url: string, port: number) => Promise<Omit<Setup, 'store'>>,
    run: (setup: Setup) => Promise<void>,
  ) {
    const database = await testDatabase();
    const store = await connectDirectly(database.url);
    try {
      const parts = await build(database.url, await freePort());
      try {
        await run({ ...parts, store });
      } finally {
        await parts.server.stop();
      }
    } finally {
      await store.end();
      await database.drop();
    }
  }

  for (const [name, fault] of Object.entries(storeFaults))
    testFault(`continues operations within the limit after ${name} between the server and PostgreSQL`, async () => {
      await withSetup(
        async (url) => {
          const address = new URL(url);
          // The host parameter names the directory of the Unix socket. The proxy needs TCP.
          address.searchParams.delete('host');
          const proxy = await toxiproxy.proxy(`store ${name}`.replaceAll(/\W+/g, '-'), address.host);
          address.host = `127.0.0.1:${proxy.port}`;
          const fault_seconds = storeFaultSeconds;
          // The fault outlasts the stale time: heartbeats that the server could not store must not
          // count as silence.
          const times = { fault_seconds, stale_after_seconds: fault_seconds / 2 };
          return {
            connection: 'PostgreSQL',
            ...times,
            proxy,
            server: await spawnServer({ database_url: address.href }),
          };
        },
        async (setup) => {
          const statuses = new Set<number>();
          await runFault(setup, name, fault, async () => {
            const begunMs = systemClock.monotonicMs();
            const elapsedSeconds = () => (systemClock.monotonicMs() - begunMs) / 1000;
            // A server that lacks CPU notices the fault late. The fault lasts until a while after
            // that, within a bound.
            let noticedSeconds = fault.isBlocking ? maxUnnoticedSeconds : 0;
            while (elapsedSeconds() < Math.max(setup.fault_seconds - 3, noticedSeconds + secondsAfterNotice)) {
              const reply = await fetch(`${setup.server.url}/readyz`);
              statuses.add(reply.status);
              if (reply.status === 503) noticedSeconds = Math.min(noticedSeconds, elapsedSeconds());
              await reply.text();
              await pause(systemClock, 500);
            }
          });
          if (!fault.isBlocking) expect([...statuses], '/readyz with a slow store').toEqual([200]);
          else {
            expect([...statuses], '/readyz without the store').toContain(503);
            // An operation records its wait only after the step that waited, so the record may come
            // after the last change of a status.
            await until('an operation to record its wait for the store', async () => {
              const waits = await setup.store.readEvidence(['operation.waited_for_store']);
              return waits.length > 0;
            });
          }
        },
      );
    });

  for (const [name, fault] of Object.entries(agentFaults))
    testFault(`continues operations within the limit after ${name} between agents and the server`, async () => {
      await withSetup(
        async (database_url, port) => {
          const proxy = await toxiproxy.proxy(`agents ${name}`.replaceAll(/\W+/g, '-'), `127.0.0.1:${port}`);
          const args = ['--public-url', `http://127.0.0.1:${proxy.port}`];
          // The stale time exceeds the fault, because longer silence would rightly get a verdict.
          const fault_seconds = fault.seconds ?? agentFaultSeconds;
          const times = { fault_seconds, stale_after_seconds: 2 * fault_seconds + 20 };
          return { connection: 'agents', ...times, proxy, server: await spawnServer({ database_url, port, args }) };
        },
        (setup) => runFault(setup, name, fault, async () => {}),
      );
    });
});
