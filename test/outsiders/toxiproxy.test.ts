/**
 * Toxiproxy between the server and PostgreSQL, and between agents and the server. No machine gets a
 * verdict because of a network fault, and every operation continues within 5 s after the fault
 * ends.
 */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import { allocationStatusNames, nodeStatusNames } from '../../src/lifecycle/model/states.ts';
import { allocate, declarePool, release, waitForStatuses } from '../support/allocations.ts';
import { testDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { isWhole, share, withOutsider } from './support/outsider.ts';
import { type FaultName, type FaultyLine, faults, startToxiproxy, type Toxiproxy } from './support/toxiproxy.ts';

/** 5 s when measured alone; beside other tests a step takes as long as the machine needs. */
const maxSeconds = share(60, 5);
/** For PostgreSQL: longer than any backoff between retries grows. */
const storeFaultSeconds = share(10, 40);
const maxUnnoticedSeconds = 60;
/**
 * For agents: well within a task's lease (15 s), so that a lost delivery must not wait for the
 * lease to end.
 */
const agentFaultSeconds = share(10, 8);
/** A fault during which leases end. */
const longFaultSeconds = 40;
const machines = share(1, 3);
const pool = 'fleet';
/** Without a brake, so that each wrong verdict would be seen. */
const document = (stale_after_seconds: number): Partial<PoolDocument> => ({
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

/** A connection past the proxy. */
async function connectDirectly(url: string) {
  const client = new Client({ connectionString: url });
  await client.connect();
  const rows = async <R>(text: string, values: unknown[] = []) => (await client.query(text, values)).rows as R[];
  return {
    now: async () => (await rows<{ now: Date }>('select clock_timestamp() as now'))[0]?.now as Date,
    unfinished: () => rows<Operation>('select workflow_id, kind from operations where finished_at is null'),
    factsOf: (operations: Operation[]) =>
      rows<OperationFact>(
        `select workflow_id, at, kind, summary
           from evidence
          where workflow_id = any($1)
          order by at`,
        [operations.map(({ workflow_id }) => workflow_id)],
      ),
    kinds: async (kinds: string[]) =>
      rows<{ kind: string; summary: string }>('select kind, summary from evidence where kind = any($1)', [kinds]),
    end: () => client.end(),
  };
}
type Direct = Awaited<ReturnType<typeof connectDirectly>>;

/**
 * Only these show that an operation continued. A leased task may be lost, and a deadline moves
 * while nothing happens.
 */
const steps: readonly string[] = [
  ...['task.succeeded', 'operation.succeeded', 'step.started'],
  ...nodeStatusNames.map((status) => `node.${status}`),
  ...allocationStatusNames.map((status) => `allocation.${status}`),
];

interface Continuation {
  kind: string;
  seconds: number;
}

/** How long after the end of the fault each running operation took its next step. */
async function secondsToContinue(store: Direct, ended: Date, underWay: Operation[], before: OperationFact[]) {
  const known = new Set(before.map(keyOf));
  let facts: OperationFact[] = [];
  const isNews = (fact: OperationFact) => !known.has(keyOf(fact)) && steps.includes(fact.kind);
  const look = async (): Promise<Continuation[] | undefined> => {
    facts = await store.factsOf(underWay);
    const next = underWay.map(({ workflow_id, kind }) => {
      const fact = facts.find((each) => each.workflow_id === workflow_id && isNews(each));
      return fact && { kind, seconds: Math.max(0, (fact.at.getTime() - ended.getTime()) / 1000) };
    });
    return next.includes(undefined) ? undefined : (next as Continuation[]);
  };
  try {
    return await until('every operation to continue', look);
  } catch (cause) {
    throw new Error(`not every operation continued: ${JSON.stringify(facts.slice(-30))}`, { cause });
  }
}

interface Figures {
  line: string;
  fault: string;
  fault_seconds: number;
  operations: number;
  median_seconds: number;
  worst_seconds: number;
  false_verdicts: number;
}
const figures: Figures[] = [];

interface Fault {
  /** Where it differs from the other faults. */
  seconds?: number;
  begin(proxy: FaultyLine): Promise<void>;
  /** Whether the fault lets nothing through. */
  blocks: boolean;
}

const toxic = (name: FaultName): Fault => ({
  begin: (proxy) => proxy.begin(faults[name]),
  blocks: name === 'resets' || name === 'half-open',
});
const outage: Fault = { begin: (proxy) => proxy.cut(), blocks: true };

const whole: Record<string, Fault> = {
  ...Object.fromEntries(Object.keys(faults).map((name) => [name, toxic(name as FaultName)])),
  outage,
};
const ofStore = share<Record<string, Fault>>({ 'half-open': toxic('half-open'), latency: toxic('latency') }, whole);
const ofAgents = share<Record<string, Fault>>(
  { 'half-open': toxic('half-open') },
  { ...whole, 'half-open for longer': { ...toxic('half-open'), seconds: longFaultSeconds } },
);

/** The share runs concurrently; the measured run has the machine to itself. */
const testFault = (name: string, story: () => Promise<void>) => (isWhole ? it : it.concurrent)(name, story, 240_000);

withOutsider('toxiproxy', ({ place }) => {
  let toxiproxy: Toxiproxy;
  beforeAll(async () => {
    toxiproxy = await startToxiproxy(place);
  });
  afterAll(async () => {
    await toxiproxy?.stop();
    console.table(figures);
  });

  interface Scene {
    line: string;
    fault_seconds: number;
    stale_after_seconds: number;
    server: SpawnedServer;
    proxy: FaultyLine;
    store: Direct;
  }

  async function runFault(
    { server, proxy, store, line, fault_seconds, stale_after_seconds }: Scene,
    name: string,
    fault: Fault,
    meanwhile: () => Promise<void>,
  ) {
    const { client } = server;
    await declarePool(client, pool, document(stale_after_seconds));
    const before = await Promise.all(Array.from({ length: 2 * machines }, () => allocate(client, pool)));
    await waitForStatuses(client, before, 'active');
    const leaving = before.slice(0, machines);
    const staying = before.slice(machines);

    await Promise.all(leaving.map((id) => release(client, id)));
    const coming = await Promise.all(Array.from({ length: machines }, () => allocate(client, pool)));
    await fault.begin(proxy);
    await Promise.all([pause(systemClock, fault_seconds * 1000), meanwhile()]);
    const underWay = await store.unfinished();
    const known = await store.factsOf(underWay);
    await proxy.end();
    const ended = await store.now();

    const went = await secondsToContinue(store, ended, underWay, known);
    const sorted = went.map(({ seconds }) => seconds).sort((a, b) => a - b);
    const worst = sorted.at(-1) ?? 0;
    await waitForStatuses(client, [...staying, ...coming], 'active');
    await waitForStatuses(client, leaving, 'released');
    const false_verdicts = await store.kinds(verdicts);
    figures.push({
      ...{ line, fault: name, fault_seconds, operations: went.length, worst_seconds: worst },
      median_seconds: sorted[Math.floor(sorted.length / 2)] ?? 0,
      false_verdicts: false_verdicts.length,
    });
    expect(false_verdicts, 'false verdicts').toEqual([]);
    if (fault.blocks) expect(went.length, 'operations that the fault met').toBeGreaterThan(0);
    expect(worst, JSON.stringify(went)).toBeLessThanOrEqual(maxSeconds);
  }

  async function scene(
    build: (url: string, port: number) => Promise<Omit<Scene, 'store'>>,
    story: (scene: Scene) => Promise<void>,
  ) {
    const database = await testDatabase();
    const store = await connectDirectly(database.url);
    try {
      const parts = await build(database.url, await freePort());
      try {
        await story({ ...parts, store });
      } finally {
        await parts.server.stop();
      }
    } finally {
      await store.end();
      await database.drop();
    }
  }

  for (const [name, fault] of Object.entries(ofStore))
    testFault(`continues operations after ${name} to PostgreSQL`, async () => {
      await scene(
        async (url) => {
          const address = new URL(url);
          // Without the socket's directory it is reached by its port.
          address.searchParams.delete('host');
          const proxy = await toxiproxy.proxy(`store ${name}`.replaceAll(/\W+/g, '-'), address.host);
          address.host = `127.0.0.1:${proxy.port}`;
          const fault_seconds = storeFaultSeconds;
          // Longer than the stale time: no machine may be blamed for heartbeats that could not be
          // stored.
          const times = { fault_seconds, stale_after_seconds: fault_seconds / 2 };
          return { line: 'PostgreSQL', ...times, proxy, server: await spawnServer({ database_url: address.href }) };
        },
        async (scene) => {
          const states = new Set<string>();
          await runFault(scene, name, fault, async () => {
            const begunMs = systemClock.monotonicMs();
            const elapsed = () => (systemClock.monotonicMs() - begunMs) / 1000;
            // A starved server notices late. The fault lasts until it has, within a bound.
            const isUnnoticed = () => fault.blocks && !states.has('503') && elapsed() < maxUnnoticedSeconds;
            while (elapsed() < scene.fault_seconds - 3 || isUnnoticed()) {
              const reply = await fetch(`${scene.server.url}/readyz`);
              states.add(`${reply.status}`);
              await reply.text();
              await pause(systemClock, 500);
            }
          });
          const waits = await scene.store.kinds(['operation.waited_for_store']);
          if (!fault.blocks) expect([...states], 'a slow store is no reason to refuse').toEqual(['200']);
          else {
            expect([...states], 'a store that is away is').toContain('503');
            expect(waits.length, 'said on the timeline').toBeGreaterThan(0);
          }
        },
      );
    });

  for (const [name, fault] of Object.entries(ofAgents))
    testFault(`continues operations after ${name} to the agents`, async () => {
      await scene(
        async (database_url, port) => {
          const proxy = await toxiproxy.proxy(`agents ${name}`.replaceAll(/\W+/g, '-'), `127.0.0.1:${port}`);
          const args = ['--public-url', `http://127.0.0.1:${proxy.port}`];
          // A machine cut off for longer is really silent.
          const fault_seconds = fault.seconds ?? agentFaultSeconds;
          const times = { fault_seconds, stale_after_seconds: 2 * fault_seconds + 20 };
          return { line: 'agents', ...times, proxy, server: await spawnServer({ database_url, port, args }) };
        },
        (scene) => runFault(scene, name, fault, async () => {}),
      );
    });
});
