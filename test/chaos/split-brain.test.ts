/**
 * The primary may no longer write: it was made read-only, or it lost its synchronous standby, which
 * another server may have promoted. A server connected to it decides nothing: no verdict, no
 * launch, no destroyed machine. It is unready, accepts heartbeats, and continues once it may write.
 */
import { expect, onTestFinished, test } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { DriverOutcome } from '../../src/drivers/driver.ts';
import { callRoute } from '../api/support/calls.ts';
import { type Machine, startMachine } from '../api/support/machine.ts';
import { simulatedDriver } from '../scenarios/support/simulated-driver.ts';
import { allocate, release, waitForStatus } from '../support/allocations.ts';
import { openDatabaseConnection } from '../support/database-connection.ts';
import { type PostgresPair, postgresPair } from '../support/postgres-pair.ts';
import { inProcessServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
/** Long enough for a verdict on a silent machine, and for the next steps of an operation. */
const watchSeconds = heartbeat.stale_after_seconds + 7;
const beatEveryMs = 300;
/** The brake would hide wrong verdicts. */
const brake = { fraction: 1, min_nodes: 1_000_000 };

interface Loss {
  state: string[];
  begin(pair: PostgresPair): Promise<void>;
  end(pair: PostgresPair): Promise<void>;
}

const alter = async ({ primary }: PostgresPair, setting: string) => {
  await primary.query(`alter system set ${setting}`);
  await primary.query('select pg_reload_conf()');
};

const losses: Record<string, Loss> = {
  'was made read-only': {
    state: ['read_only'],
    begin: (pair) => alter(pair, 'default_transaction_read_only = on'),
    end: (pair) => alter(pair, 'default_transaction_read_only = off'),
  },
  'lost its synchronous standby': {
    // Once waiting commits hold all connections, the check gets no answer.
    state: ['commit_waits', 'unavailable'],
    begin: ({ standby }) => standby.freeze(),
    end: ({ standby }) => standby.thaw(),
  },
};

/** A provider whose machines run. A call of `stop` returns when the test opens the gate. */
function createYard() {
  /** The calls that create or destroy machines. */
  const calls: string[] = [];
  let stops = 0;
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const record = (call: string) => async (): Promise<DriverOutcome> => {
    calls.push(call);
    return { outcome: 'done', message: call };
  };
  const driver = simulatedDriver({
    name: 'yard',
    supervision: 'agentless',
    ensure: record('ensure'),
    inspect: async () => ({ state: 'Running', present: true, ready: true, detail: null }),
    async stop() {
      stops++;
      await gate;
      return { outcome: 'done', message: 'stopped' };
    },
    clean: record('clean'),
    destroy: record('destroy'),
  });
  return { driver, calls, stops: () => stops, open: () => open() };
}

/** Sends heartbeats until `end`. */
function keepBeating(machine: Machine) {
  const statuses: number[] = [];
  let isOver = false;
  const loop = (async () => {
    while (!isOver) {
      statuses.push((await machine.beat()).status);
      await pause(systemClock, beatEveryMs);
    }
  })();
  const end = async () => {
    isOver = true;
    await loop;
  };
  onTestFinished(end);
  return { statuses, end };
}

for (const [name, loss] of Object.entries(losses))
  test(`decides nothing while its primary ${name}, and continues afterwards`, { timeout: 300_000 }, async () => {
    const pair = await postgresPair();
    await alter(pair, `synchronous_standby_names = 'standby'`);
    const yard = createYard();
    const server = await inProcessServer({
      database_url: pair.primary.url,
      composition: { drivers: (built) => new Map([...built, ['yard', yard.driver]]) },
    });
    onTestFinished(() => server.stop());
    // A server whose commits wait cannot stop.
    onTestFinished(() => loss.end(pair));
    const { client, url, token: bearer } = server;
    const db = await openDatabaseConnection(pair.primary.url);
    onTestFinished(() => db.close());
    const readState = async () => {
      const reply = await fetch(`${url}/readyz`);
      const { checks } = (await reply.json()) as { checks: { database: { state: string } } };
      return { status: reply.status, state: checks.database.state };
    };

    await client.call('pool-put', { params: { pool: 'yard' }, body: { driver: 'yard', brake } });
    await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external', heartbeat, brake } });
    const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
    const [living, silent] = await Promise.all(
      ['living', 'silent'].map((machine) => startMachine(url, { join_token, name: machine })),
    );
    if (!living || !silent) throw new Error('two machines must register');
    for (const machine of [living, silent]) expect((await machine.beat('ready')).status).toBe(200);
    const heard = keepBeating(living);
    const lastBeats = keepBeating(silent);
    const ending = await allocate(client, 'yard');
    await waitForStatus(client, ending, 'active');
    await release(client, ending);
    await until('the release to stop the machine', () => yard.stops() > 0);

    await loss.begin(pair);
    const lost = await until('the server to be unready', async () => {
      const readiness = await readState();
      return readiness.status === 503 ? readiness : undefined;
    });
    expect(loss.state).toContain(lost.state);
    const readDecisions = async () => ({
      nodes: await db.query('select node_id, status from nodes order by node_id'),
      allocations: await db.query('select allocation_id, status from allocations order by allocation_id'),
      facts: await db.query('select kind from evidence order by seq'),
      calls: [...yard.calls],
    });
    const before = await readDecisions();
    const beatsBefore = heard.statuses.length;
    await lastBeats.end();
    yard.open();
    const request = callRoute(url, 'allocation-create', { body: { pool: 'yard' } }, { bearer }).catch(() => undefined);
    const watchMs = systemClock.monotonicMs() + watchSeconds * 1000;
    await until('the time in which the server would decide', async () => {
      expect(await readDecisions()).toEqual(before);
      expect((await readState()).status).toBe(503);
      return systemClock.monotonicMs() >= watchMs;
    });
    expect(heard.statuses.length, 'heartbeats are answered').toBeGreaterThan(beatsBefore);

    await loss.end(pair);
    await until('the server to be ready', async () => (await readState()).status === 200);
    await request;
    const readStatus = async ({ node_id: id }: Machine) => (await client.call('node-get', { params: { id } })).status;
    await until('the verdict on the silent machine', async () => (await readStatus(silent)) === 'offline', {
      seconds: 120,
    });
    await waitForStatus(client, ending, 'released');
    expect(yard.calls.filter((call) => call === 'destroy')).not.toEqual([]);
    await waitForStatus(client, await allocate(client, 'yard'), 'active');
    expect(await readStatus(living)).toBe('ready');
    const query = { kind: 'node.offline' } as const;
    const { items } = await client.call('node-timeline', { params: { id: living.node_id }, query });
    expect(items, 'a false verdict').toEqual([]);
  });
