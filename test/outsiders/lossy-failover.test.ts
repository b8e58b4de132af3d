/**
 * Two replicas and live machines, and an asynchronous standby that lags by seconds. Each failover
 * loses acknowledged commits, among them those of a machine that has just been launched. Both
 * replicas go on, record the loss, and no machine is stopped or judged because of it. The agents of
 * allocations are real processes; the others only send heartbeats and answer pings.
 */
import { expect, onTestFinished, test } from 'vitest';
import { type RequestRefused, ServerUnreachable } from '../../src/contract/client.ts';
import { type EventReader, openEvents } from '../api/support/event-reader.ts';
import { allocate, declarePool, readAllocation, waitForStatus } from '../support/allocations.ts';
import { withClient } from '../support/database.ts';
import { openDatabaseConnection } from '../support/database-connection.ts';
import { replicatedPostgres } from '../support/replicated-postgres.ts';
import { type SpawnedServer, spawnServer, type TestServer } from '../support/server.ts';
import { findTaggedProcesses } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';
import { readVerdicts } from './failover/checks.ts';
import { type LightAgent, type LightAgents, startLightAgents } from './failover/light-agents.ts';
import { share } from './support/outsider.ts';

const size = share(
  { failovers: 2, kept_machines: 2, light_agents: 4 },
  { failovers: 10, kept_machines: 4, light_agents: 20 },
);
const lagMs = 3_000;
const heartbeat = { interval_seconds: 2, stale_after_seconds: 6 };

/** Retries while a replica has no database. */
const patiently = <T>(what: string, call: () => Promise<T>): Promise<NonNullable<T>> =>
  until(what, () =>
    call().catch((error) => {
      const isRetryable = error instanceof ServerUnreachable || (error as RequestRefused).problem?.status >= 500;
      if (!isRetryable) throw error;
      return undefined;
    }),
  );

const declare = (server: TestServer, pool: string) =>
  patiently(`the pool ${pool} to be declared`, () =>
    server.client.call('pool-put', { params: { pool }, body: { driver: 'external' } }),
  );

interface Replica {
  server: SpawnedServer;
  reader: EventReader;
}

const follow = (server: TestServer, cursor?: string) =>
  until('a stream', () => openEvents(server.url, server.token, '?topics=evidence', cursor).catch(() => undefined));

const waitForPool = ({ reader }: Replica, pool: string) =>
  reader.waitFor(`the fact about ${pool}`, ({ data }) => JSON.stringify(data).includes(pool));

/** A ping takes a long poll of the caller, and a task that the agent fetches. */
async function expectAnswered({ server: { client } }: Replica, { node_id: id }: LightAgent): Promise<void> {
  const { task_id } = await patiently('a ping to be sent', () =>
    client.call('node-ping', { params: { id }, body: {} }),
  );
  await until('the ping to end', async () => {
    const { over, checks } = await client.call('node-ping-get', { params: { id, task_id }, query: { wait: 10 } });
    if (over) expect(checks.map(({ ok }) => ok)).not.toContain(false);
    return over;
  });
}

test(`serves on after ${size.failovers} failovers to a standby that lags by ${lagMs / 1000} s`, {
  timeout: share(300_000, 3_600_000),
}, async () => {
  const postgres = await replicatedPostgres({ canLag: true });
  onTestFinished(() => postgres.stop());
  const first = await spawnServer({ database_url: postgres.urlOfBoth });
  onTestFinished(() => first.stop());
  const second = await spawnServer({ beside: first });
  onTestFinished(() => second.stop());
  const replicas: Replica[] = [];
  const fleets: LightAgents[] = [];
  await declarePool(first.client, 'work');
  for (const [index, server] of [first, second].entries()) {
    await declarePool(first.client, `fleet-${index}`, { driver: 'external', heartbeat });
    const fleet = await startLightAgents(server, `fleet-${index}`, size.light_agents / 2 + 1);
    onTestFinished(() => fleet.stop());
    fleets.push(fleet);
    replicas.push({ server, reader: await follow(server) });
  }
  const agents = fleets.flatMap((fleet) => [...fleet.agents]);
  const db = await openDatabaseConnection(postgres.primaryUrl());
  const { installation_id } = db;
  await db.close();
  const findAgents = () => findTaggedProcesses(installation_id).filter(({ agent }) => agent);
  /** The agents' processes of machines that nobody asked to stop. */
  const mustLive = new Map<number, string>();
  const keep = async (server: TestServer) => {
    const before = new Set(findAgents().map(({ pid }) => pid));
    const id = await allocate(server.client, 'work');
    const { node_id } = await waitForStatus(server.client, id, 'active');
    for (const { pid } of findAgents()) if (!before.has(pid)) mustLive.set(pid, `the machine of ${id} (${node_id})`);
    return id;
  };
  const keptIds: string[] = [];
  for (let index = 0; index < size.kept_machines; index++) keptIds.push(await keep(first));

  const readLosses = async () => {
    const connection = await openDatabaseConnection(postgres.primaryUrl());
    const losses = await connection.countRows(`select 1 from evidence where kind = 'evidence.lost'`);
    await connection.close();
    return losses;
  };
  let lostMachines = 0;
  for (let round = 0; round < size.failovers; round++) {
    const [one, other] =
      round % 2 === 0 ? (replicas as [Replica, Replica]) : (replicas.toReversed() as [Replica, Replica]);
    await postgres.addStandby();
    await postgres.catchUp();
    postgres.lag(lagMs);
    await declare(one.server, `kept-${round}`);
    await postgres.catchUp();
    const lossesBefore = await readLosses();
    const newId = await keep(other.server);
    await declare(one.server, `lost-${round}`);
    for (const replica of replicas) await waitForPool(replica, `lost-${round}`);
    const cursors = replicas.map(({ reader }) => reader.lastId());

    // Every second time, the standby has the allocation, but not that its machine came up.
    if (round % 2 === 1)
      await withClient(postgres.standbyUrl(), (standby) =>
        until(
          'the standby to receive the allocation',
          async () => {
            const { rowCount } = await standby.query('select from allocations where allocation_id = $1', [newId]);
            return rowCount === 1;
          },
          { every_ms: 20 },
        ),
      );
    await postgres.failOver();
    for (const [index, replica] of replicas.entries()) {
      await until('the stream to end', replica.reader.ended);
      replica.reader = await follow(replica.server, cursors[index]);
      await replica.reader.waitFor('the reset', ({ name }) => name === 'reset');
      await until('the replica to be ready', async () => (await fetch(`${replica.server.url}/readyz`)).ok);
    }
    await declare(one.server, `after-${round}`);
    for (const replica of replicas) {
      await waitForPool(replica, `after-${round}`);
      const pools = (await replica.server.client.call('pool-list', {})).items.map(({ name }) => name);
      expect(pools).toContain(`kept-${round}`);
      expect(pools, 'the standby lagged').not.toContain(`lost-${round}`);
    }
    await until('the loss to be recorded', async () => (await readLosses()) > lossesBefore);
    for (const [index, replica] of replicas.entries()) await expectAnswered(replica, agents[index] as LightAgent);

    const { items } = await one.server.client.call('allocation-list', { query: { limit: 500 } });
    if (items.some(({ allocation_id }) => allocation_id === newId)) {
      // The operation ended before the failover, and the database does not have its end. If it does
      // not have the registration of the machine either, the allocation waits until its deadline.
      const { status, deadline_at } = await until('the allocation to move', async () => {
        const allocation = await readAllocation(one.server.client, newId);
        return allocation.status === 'requested' ? undefined : allocation;
      });
      if (status === 'active') keptIds.push(newId);
      else expect(deadline_at, `the deadline of an allocation that is ${status}`).not.toBeNull();
    } else lostMachines++;
  }
  console.log(
    `${size.failovers} failovers; ${mustLive.size} machines, of which ${lostMachines} were lost with their rows`,
  );

  // Verdicts wait after a failover. A verdict on a machine that really dies shows that the rules
  // judge silence again.
  const dying = agents.at(-1) as LightAgent;
  fleets[1]?.die(dying);
  const readAll = () => readVerdicts(postgres.primaryUrl());
  await until(
    'the verdict on the dead machine',
    async () => (await readAll()).some(({ node_id, kind }) => node_id === dying.node_id && kind === 'node.offline'),
    { seconds: 120 },
  );
  // A machine without a row is true residue, and each loss is recorded.
  const expectedKinds = ['evidence.lost', 'residue.found'];
  const verdicts = (await readAll()).filter(
    ({ node_id, kind }) => node_id !== dying.node_id && !expectedKinds.includes(kind),
  );
  expect(verdicts.map(({ kind, summary }) => `${kind}: ${summary}`)).toEqual([]);
  const living = new Set(findAgents().map(({ pid }) => pid));
  expect(
    [...mustLive].filter(([pid]) => !living.has(pid)).map(([, machine]) => machine),
    'stopped',
  ).toEqual([]);
  for (const id of keptIds) await waitForStatus(first.client, id, 'active');
  for (const fleet of fleets) expect(fleet.refusals).toEqual([]);
  for (const { reader } of replicas) await reader.close();
});
