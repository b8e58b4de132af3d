/**
 * A rolling upgrade and a rollback under load, with real processes on one database, behind a load
 * balancer. The older version is this one. The newer version is simulated: this code with a higher
 * version number and more migrations. The agents of the external pool are those of the oldest
 * release that the newer version supports.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot, packageVersion } from '../../../src/base/files/package-root.ts';
import type { UpgradeReport } from '../../../src/store/upgrade/check.ts';
import { knownSchema } from '../../../src/store/upgrade/migration-steps.ts';
import { isBeforeWindow, releases } from '../../../src/store/upgrade/releases.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
} from '../../support/database-connection.ts';
import { freePort } from '../../support/free-port.ts';
import { copyAsNextVersion, lastVersionInWindow, type NextMigrations } from '../../support/next-version.ts';
import { type SpawnedServer, spawnProgram, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type BalancedCall, type Balancer, type Caller, startBalancer } from './balancer.ts';
import { type Load, startLoad } from './load.ts';
import { type OldAgents, oldAgents } from './old-agents.ts';

/** Long enough that the load balancer notices, on a busy machine too. */
const drainSeconds = 5;
/** Operations that each replica must finish in a phase, and calls that it must answer. */
const minOperations = 3;
const minCalls = { agent: 10, client: 10 } as const;
const newVersion = lastVersionInWindow();
const oldAgentVersion = releases.find(({ version }) => !isBeforeWindow(version, newVersion))?.version ?? '';

/**
 * These migrations change the tables that every call and heartbeat uses, while the older version
 * serves.
 */
const migrations: NextMigrations = {
  '9001-next-columns.sql': {
    sql: `
      alter table nodes add column next_rank integer not null default 0;
      alter table allocations add column next_note text;
      alter table operations add column next_note text;
      alter table heartbeats add column next_load real;
      alter table evidence add column next_source text;`,
    step: {
      step: 'expand',
      effects: ['nodes', 'allocations', 'operations', 'heartbeats', 'evidence'].map((table) => ({
        table,
        blocks: 'everything',
        work: 'catalog',
      })),
    },
  },
  '9002-next-index.sql': {
    sql: '-- online\ncreate index concurrently if not exists allocations_next on allocations (created_at, name);',
    step: { step: 'expand', effects: [{ table: 'allocations', blocks: 'nothing', work: 'index' }] },
  },
  // Moves the names, and keeps the column that the older version reads and writes.
  '9003-next-names.sql': {
    sql: `
      create table allocation_names (
        allocation_id text primary key references allocations on delete cascade,
        name text
      );
      create function copy_allocation_name() returns trigger language plpgsql as $$
      begin
        insert into allocation_names values (new.allocation_id, new.name)
        on conflict (allocation_id) do update set name = excluded.name;
        return null;
      end $$;
      create trigger copy_name after insert or update of name on allocations
      for each row execute function copy_allocation_name();
      insert into allocation_names select allocation_id, name from allocations;`,
    step: { step: 'migrate', effects: [{ table: 'allocations', blocks: 'writes', work: 'rows' }] },
  },
};

const externalPool = 'racks';
const oldAgentNames = ['rack-1', 'rack-2', 'rack-3'];
/** Two clients allocate from each pool. */
const loadedPools = [externalPool, externalPool, 'local', 'local'];

let directory: string;
let balancer: Balancer;
let agents: OldAgents | undefined;
let db: DatabaseConnection | undefined;
const servers: SpawnedServer[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-rolling-'));
  balancer = await startBalancer();
});
afterEach(async () => {
  await db?.close();
  await agents?.stop();
  for (const server of servers) await server.kill();
  // The first server owns the database and the directory of the machines.
  for (const server of servers.splice(0).reverse()) await server.stop();
  await balancer.stop();
  await rm(directory, { recursive: true, force: true });
});

interface Replica {
  /** Its own address. The server prints its public address, which is that of the balancer. */
  url: string;
  server: SpawnedServer;
}

async function startReplica(program?: string): Promise<Replica> {
  const port = await freePort();
  const server = await spawnServer({
    ...(servers[0] && { beside: servers[0] }),
    ...(program !== undefined && { program }),
    port,
    args: [
      ...['--public-url', balancer.url, '--drain-seconds', String(drainSeconds)],
      ...['--key-file', join(directory, 'keys.json')],
    ],
    // A copy in a new directory would fill the cache of compiled code at each run.
    env: program === undefined ? {} : { NODE_DISABLE_COMPILE_CACHE: '1' },
  });
  servers.push(server);
  const url = `http://127.0.0.1:${port}`;
  await balancer.add(url);
  return { url, server };
}

async function stopReplica({ server }: Replica): Promise<void> {
  process.kill(server.pid, 'SIGTERM');
  expect(await server.ended).toBe(0);
}

/** Waits until each of these replicas has worked on the present schema, and each client too. */
async function workOn(load: Load, replicas: Replica[]): Promise<void> {
  const [moment] = await query<{ at: Date }>('select clock_timestamp() as at');
  const firstCall = balancer.calls.length;
  const countCalls = (replica: Replica, caller: Caller) =>
    balancer.calls.slice(firstCall).filter((call) => call.replica_url === replica.url && call.caller === caller).length;
  const countOperations = async ({ server }: Replica) => {
    const [row] = await query<{ count: number }>(
      `select count(*)::integer as count
       from operations
       join replicas using (replica_id)
       where replicas.pid = $1
         and operations.status = 'succeeded'
         and operations.started_at > $2`,
      [server.pid, moment?.at],
    );
    return row?.count ?? 0;
  };
  await load.nextTurn();
  for (const replica of replicas)
    await until('the replica to answer agents and clients, and to finish operations', async () => {
      for (const caller of ['agent', 'client'] as const)
        if (countCalls(replica, caller) < minCalls[caller]) return false;
      return (await countOperations(replica)) >= minOperations;
    });
}

const query = async <R extends object>(text: string, values: unknown[] = []): Promise<R[]> =>
  (await db?.query<R>(text, values)) ?? [];

/** Runs `slipway upgrade --check` of one version on the running database. */
async function checkUpgrade(program?: string): Promise<UpgradeReport> {
  const check = spawnProgram(['--check', '--json', '--database-url', servers[0]?.database_url ?? ''], {
    program: program ?? join(packageRoot, 'src/server/upgrade.ts'),
  });
  await check.ended;
  return JSON.parse(check.stdout());
}

/** Facts that would be wrong here: no machine is ill, and no call may fail. */
const wrongFacts = [
  ...['node.degraded', 'node.offline', 'node.failed', 'node.quarantined', 'node.held', 'node.restarted'],
  ...['allocation.failed', 'allocation.release_failed', 'operation.failed', 'step.failed', 'task.failed'],
  ...['beat.refused', 'request.denied', 'registration.refused', 'connection.broken', 'agent_call_failed'],
  ...['verdict.unwritable', 'evidence.lost', 'evidence.missing', 'finding.opened', 'residue.found', 'residue.left'],
];

/** A stream has no end of its own; its reader continues on another replica. */
const isStream = ({ name }: BalancedCall) => name === 'GET /v1/stream';
/** With these, the server says when to repeat the call. */
const retryStatuses = [429, 503];
const isRetry = ({ status, cut }: BalancedCall) => !cut && retryStatuses.includes(status);
const isError = (call: BalancedCall) => !isStream(call) && !isRetry(call) && (call.cut || call.status >= 400);

const describeCalls = (calls: readonly BalancedCall[]) =>
  calls.map(({ name, status, cut }) => `${name}: ${status}${cut ? ', cut off' : ''}`);

function printFigures({ allocation_ids, repeated, reconnects }: Load): void {
  const { calls } = balancer;
  const byAgents = calls.filter(({ caller }) => caller === 'agent').length;
  process.stdout.write(
    `${allocation_ids.length} allocations; ${byAgents} calls of agents and ${calls.length - byAgents} of clients; ` +
      `to repeat: ${JSON.stringify(describeCalls(calls.filter(isRetry)))}, ` +
      `repeated by clients: ${JSON.stringify([...repeated])}; the stream was opened again ${reconnects()} times\n`,
  );
}

/** Lines of a server's log at level `error` or above. */
const errorLines = (output: string) => output.split('\n').filter((line) => /"level":"(error|fatal)"/.test(line));

it('agents and clients see no error while a newer version comes, and goes again', async () => {
  const older = await startReplica();
  const { client, token, database_url } = older.server;
  db = await openDatabaseConnection(database_url);
  await declarePool(client, externalPool, { driver: 'external' });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: externalPool } });
  agents = await oldAgents({ version: oldAgentVersion, server_url: balancer.url, join_token });
  for (const name of oldAgentNames) agents.start(name);
  const heldIds = [await allocate(client, externalPool), await allocate(client, 'local')];
  for (const id of heldIds) await waitForStatus(client, id, 'active');
  const readHeldNodes = async () =>
    Promise.all(
      heldIds.map(async (id) => {
        const { node_id } = await readAllocation(client, id);
        const { status, node_instance_id, restarts, agent_version } = await client.call('node-get', {
          params: { id: node_id ?? '' },
        });
        return { status, node_instance_id, restarts, agent_version };
      }),
    );
  const heldNodes = await readHeldNodes();
  expect(heldNodes.map(({ agent_version }) => agent_version)).toEqual([
    `slipway-agent/${oldAgentVersion}`,
    `slipway-agent/${packageVersion()}`,
  ]);

  const load = startLoad({ url: balancer.url, token, pools: loadedPools });
  await workOn(load, [older]);

  await copyAsNextVersion(directory, migrations);
  const planned = await checkUpgrade(join(directory, 'src/server/upgrade.ts'));
  expect(planned).toMatchObject({ version: newVersion, rollback: { possible: true } });
  expect(planned.migrations.map(({ name }) => name)).toEqual(Object.keys(migrations));
  expect(planned.agents).toContainEqual({ version: oldAgentVersion, nodes: expect.any(Number), supported: true });
  const newer = await startReplica(join(directory, 'src/main.ts'));
  expect(await query('select name from schema_migrations where version > $1 order by version', [knownSchema])).toEqual(
    Object.keys(migrations).map((name) => ({ name })),
  );
  await workOn(load, [older, newer]);

  await stopReplica(older);
  await workOn(load, [newer]);

  expect(await checkUpgrade()).toMatchObject({
    version: packageVersion(),
    verdict: 'ready',
    replicas: [{ version: newVersion }],
  });
  const olderAgain = await startReplica();
  expect(olderAgain.server.output()).toContain('the schema is newer than this version');
  await workOn(load, [olderAgain, newer]);

  await stopReplica(newer);
  await workOn(load, [olderAgain]);
  await load.stop();

  expect(await readHeldNodes()).toEqual(heldNodes);
  expect(agents.ended()).toEqual([]);
  for (const id of heldIds) {
    await release(client, id);
    await waitForStatus(client, id, 'released');
  }
  printFigures(load);
  expect(describeCalls(balancer.calls.filter(isError))).toEqual([]);
  expect(await query('select kind, summary from evidence where kind = any($1)', [wrongFacts])).toEqual([]);
  for (const id of load.allocation_ids)
    for (const kind of ['allocation.active', 'allocation.released']) {
      expect(await db.countEvidence(id, kind), `${kind} of ${id}`).toBe(1);
      expect(load.streamed(id, kind), `${kind} of ${id} on the stream`).toBe(1);
    }
  // The newer version finds each row of the older one, also those written after its migration.
  expect(
    await query(
      `select allocation_id
       from allocations
       left join allocation_names using (allocation_id)
       where allocation_names.name is distinct from allocations.name`,
    ),
  ).toEqual([]);
  // The message names the lines: a report of the test run shortens the values.
  const errors = servers.flatMap((server) => errorLines(server.output()));
  expect(errors, errors.join('\n')).toEqual([]);

  for (const { node_id } of (await client.call('node-list', { query: { pool: externalPool } })).items)
    await client.call('node-act', { params: { id: node_id, action: 'retire' }, body: { reason: 'end of the test' } });
  await expectNothingLeft(db, older.server.nodes_dir, 1);
}, 400_000);
