/** The run of a failover test: load, failovers, and the checks after each and at the end. */
import { expect, onTestFinished } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { declarePool } from '../../support/allocations.ts';
import { expectNothingLeft, openDatabaseConnection } from '../../support/database-connection.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { releaseAll, retireAll } from '../random-calls/settle.ts';
import { type Changes, countChanges, startChanges } from './changes.ts';
import {
  findLost,
  judgeVerdicts,
  type OperationState,
  readReasonsToWait,
  readUnfinished,
  readVerdicts,
} from './checks.ts';
import type { FailoverCluster } from './cluster.ts';
import { type LightAgent, type LightAgents, startLightAgents } from './light-agents.ts';

export interface FailoverSize {
  failovers: number;
  /** Each has one allocation at a time. */
  workers: number;
  light_agents: number;
  /** A worker keeps its allocation for up to this long. */
  max_hold_seconds: number;
  /** Changes that must be acknowledged before the next failover. */
  changes_between: number;
  action_every_ms: number;
  /** Waits after each failover, not only the last, until a dead machine has its verdict. */
  judges_every_round: boolean;
}

/** The documented limit after the promotion. */
const promisedSeconds = 10;
/** Not shorter, because a busy server records a pause longer than the interval as an ingest gap. */
const heartbeat = { interval_seconds: 2, stale_after_seconds: 6 };
/** If the outage were not on record as a gap, every machine would look silent afterwards. */
const outageSeconds = heartbeat.stale_after_seconds + 2;

async function scrape({ url, token }: SpawnedServer): Promise<string> {
  const reply = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  expect(reply.status).toBe(200);
  return reply.text();
}

async function checkMetricsDuringOutage(server: SpawnedServer): Promise<void> {
  const metrics = await scrape(server);
  expect(metrics).toContain('slipway_database_state{state="unavailable"} 1');
  expect(metrics).toContain('slipway_beats_total');
  expect(metrics, 'no old values').not.toContain('slipway_nodes{');
}

/** Seconds from the promotion until each part worked again. */
interface Recovery {
  operations: number;
  ready: number;
  firstChange: number;
  /**
   * When every operation had recorded a fact. The fact that it waited for the store counts: its run
   * records it after the interrupted call to the store succeeded, so a stuck run records none. A
   * step that waits for a machine to boot has nothing else to record.
   */
  allContinued: number;
  /** When every operation had changed a step. Most steps wait for a machine. */
  allSteps: number;
  /** The steps, at the promotion, of the operation that was the last to change a step. */
  lastSteps: string;
}

const format = (seconds: number) => `${seconds.toFixed(1)} s`;

async function measureRecovery(
  server: SpawnedServer,
  cluster: FailoverCluster,
  { acknowledged }: Changes,
  waiting: ReadonlyMap<string, OperationState>,
  promotedMs: number,
): Promise<Recovery> {
  const secondsSince = (ms = systemClock.monotonicMs()) => (ms - promotedMs) / 1000;
  const waitForReady = async () => {
    await until('the server to be ready', async () => (await fetch(`${server.url}/readyz`)).ok);
    return secondsSince();
  };
  const waitForChange = async () => {
    await until('a change to be acknowledged', () => acknowledged.lastMs > promotedMs);
    return secondsSince(acknowledged.lastMs);
  };
  let allContinued: number | undefined;
  let lastSteps = '';
  const waitForSteps = async () => {
    const pending = new Map(waiting);
    const check = async () => {
      const states = await readUnfinished(cluster.primaryUrl());
      const isContinued = (id: string, { facts }: OperationState) => states.get(id)?.facts !== facts;
      if ([...waiting].every(([id, state]) => isContinued(id, state))) allContinued ??= secondsSince();
      for (const [id, { steps }] of pending)
        if (states.get(id)?.steps !== steps) {
          pending.delete(id);
          lastSteps = steps;
        }
      return pending.size === 0;
    };
    try {
      await until('all operations to continue', check, { seconds: 60, every_ms: 200 });
    } catch (error) {
      const steps = [...pending.values()].map((state) => state.steps);
      throw new Error(`did not continue: ${steps.join('; ')}`, { cause: error });
    }
    return secondsSince();
  };
  const [ready, firstChange, allSteps] = await Promise.all([waitForReady(), waitForChange(), waitForSteps()]);
  return { operations: waiting.size, ready, firstChange, allContinued: allContinued ?? allSteps, allSteps, lastSteps };
}

/** Waits until rules judge silence again, which the verdict on a dead machine shows. */
async function waitForVerdict(cluster: FailoverCluster, { agents }: LightAgents, agent: LightAgent): Promise<void> {
  try {
    await until(
      'the verdict on a dead machine',
      async () => judgeVerdicts(await readVerdicts(cluster.primaryUrl()), agents).real.has(agent.node_id),
      { seconds: 120, every_ms: 500 },
    );
  } catch (error) {
    const facts = await readReasonsToWait(cluster.primaryUrl(), agent);
    throw new Error(`no verdict on ${agent.node_id}: ${facts.join('; ')}`, { cause: error });
  }
}

async function expectConsistent({ client }: SpawnedServer): Promise<void> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await client.call('store-verify', { query: { limit: 500, ...(cursor && { cursor }) } });
    expect(page.items).toEqual([]);
    expect(page.unretired ?? []).toEqual([]);
    expect(page.miscounted ?? []).toEqual([]);
    cursor = page.next_cursor;
  }
  const { items } = await client.call('drift-list', {});
  expect(
    items.map(({ what, says }) => `${what}: ${says}`),
    'findings',
  ).toEqual([]);
}

export async function runFailovers(cluster: FailoverCluster, size: FailoverSize): Promise<void> {
  const { failovers, workers, light_agents, max_hold_seconds } = size;
  console.log(
    `${cluster.name}: ${failovers} failovers, ${workers} workers that allocate, ${light_agents} simulated agents`,
  );
  const server = await spawnServer({ database_url: cluster.url });
  onTestFinished(async () => {
    await server.kill();
    await server.stop();
  });
  const { client } = server;
  await declarePool(client, 'work');
  await declarePool(client, 'fleet', { driver: 'external', heartbeat });
  const fleet = await startLightAgents(server, 'fleet', light_agents);
  onTestFinished(() => fleet.stop());
  const doomed = fleet.agents.slice(0, failovers);
  const nodes = fleet.agents.slice(failovers).map(({ node_id }) => node_id);
  const changes = startChanges({ ...size, client, pool: 'work', nodes });
  await until('every worker to have allocated', () => changes.acknowledged.created.size >= workers, {
    seconds: 2 * max_hold_seconds + 120,
  });
  expect(await scrape(server)).toContain('slipway_database_state{state="ok"} 1');

  const recoveries: Recovery[] = [];
  for (const [round, dying] of doomed.entries()) {
    await cluster.addStandby();
    const before = countChanges(changes.acknowledged);
    await until('more changes', () => countChanges(changes.acknowledged) >= before + size.changes_between, {
      seconds: 300,
    });
    fleet.die(dying);
    await cluster.killPrimary();
    const killedMs = systemClock.monotonicMs();
    if (round === 0) await checkMetricsDuringOutage(server);
    await pause(systemClock, killedMs + 1000 * outageSeconds - systemClock.monotonicMs());
    await cluster.promote();
    const promotedMs = systemClock.monotonicMs();
    const waiting = await readUnfinished(cluster.primaryUrl());
    expect(await findLost(cluster.primaryUrl(), changes.acknowledged), 'lost changes').toEqual([]);
    const recovery = await measureRecovery(server, cluster, changes, waiting, promotedMs);
    recoveries.push(recovery);
    console.log(
      `failover ${round + 1}, ${format((promotedMs - killedMs) / 1000)} without a primary; after the promotion: ` +
        `ready ${format(recovery.ready)}, first change ${format(recovery.firstChange)}, ` +
        `all ${recovery.operations} operations continued ${format(recovery.allContinued)}, ` +
        `all had a further step ${format(recovery.allSteps)} (the last: ${recovery.lastSteps})`,
    );
    if (size.judges_every_round) await waitForVerdict(cluster, fleet, dying);
  }

  const releaseEverything = () => changes.stop().then(() => releaseAll(client));
  await Promise.all([releaseEverything(), ...doomed.map((agent) => waitForVerdict(cluster, fleet, agent))]);
  const url = cluster.primaryUrl();
  const { real, falseVerdicts } = judgeVerdicts(await readVerdicts(url), fleet.agents);
  const worst = Math.max(...recoveries.map((each) => Math.max(each.ready, each.firstChange, each.allContinued)));
  const { acknowledged, log, refusals } = changes;
  console.log(
    `${acknowledged.created.size} allocations, ${acknowledged.released.size} releases, ${acknowledged.actions.size} actions and ` +
      `${acknowledged.pools.size} pools acknowledged in ${log.calls} calls; ${fleet.counts.answered} heartbeats answered, ` +
      `${fleet.counts.unanswered} not; ${real.size} machines offline, of which ${failovers} died; ` +
      `at the latest ${format(worst)} after a promotion calls and all operations continued (promised ${promisedSeconds} s)`,
  );
  expect(await findLost(url, acknowledged), 'lost changes').toEqual([]);
  expect(falseVerdicts, `false verdicts: ${falseVerdicts.join('\n')}`).toEqual([]);
  expect(refusals, 'refused changes').toEqual([]);
  expect(fleet.refusals, 'refused heartbeats').toEqual([]);
  expect(log.failures, 'answers with 5xx').toEqual([]);

  const db = await openDatabaseConnection(url);
  onTestFinished(() => db.close());
  // A repeated request created no second allocation.
  const rows = await db.query<{ allocation_id: string }>('select allocation_id from allocations');
  expect(new Set(rows.map(({ allocation_id }) => allocation_id))).toEqual(acknowledged.created);
  await expectConsistent(server);
  await retireAll(client);
  fleet.stop();
  await expectConsistent(server);
  await expectNothingLeft(db, server.nodes_dir, 1);
  expect(worst).toBeLessThanOrEqual(promisedSeconds);
}
