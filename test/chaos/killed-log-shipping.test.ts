/**
 * Kills the agent with `kill -9` during a flood of log lines, and the server at the worst moment:
 * the lines are durable, but the acknowledgement never reaches the agent. The agent numbers the
 * lines in its spool, and every number must be stored exactly once.
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AgentBench, agentBench } from '../../src/agent/testing/agent-process.ts';
import type { LogLine } from '../../src/contract/node.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const lock = 20_262;
const trapSql = `
  create function chaos_hold_lines() returns trigger language plpgsql as $$
  begin perform pg_advisory_xact_lock(${lock}); return new; end $$;
  create trigger chaos_hold_lines after insert on node_log_chunks for each row execute function chaos_hold_lines();`;
/**
 * Selects inserts that wait for the lock in a transaction of a single statement. The database
 * finishes such a statement even after its client died. Longer transactions insert with another
 * statement, or lock the end of the log first.
 */
const waitingInsertsSql = `
  select 1
  from pg_locks waiting
  join pg_stat_activity activity using (pid)
  where waiting.locktype = 'advisory'
    and waiting.objid = ${lock}
    and not waiting.granted
    and activity.datname = current_database()
    and activity.query like '%with shipped as (%'
    and not exists (
      select
      from pg_locks earlier
      where earlier.pid = waiting.pid
        and earlier.relation = 'node_log_ends'::regclass
        and earlier.mode = 'RowShareLock'
    )`;
const lockSql = `select pg_advisory_lock(${lock})`;
const unlockSql = `select pg_advisory_unlock(${lock})`;

/**
 * Prints numbered lines. Saves each number after its line was written, so that after a kill the
 * next run continues with the following number.
 */
const flood = `trap '' PIPE
n=$(cat count 2>/dev/null || echo 0)
while [ ! -e enough ]; do n=$((n+1)); echo "count $n" || exit 1; echo $n > count; done
echo final; sleep 60`;

let firstServer: SpawnedServer;
let server: SpawnedServer;
let db: DatabaseConnection;
let bench: AgentBench;
let port: number;

beforeAll(async () => {
  port = await freePort();
  firstServer = await spawnServer({ port });
  server = firstServer;
  db = await openDatabaseConnection(firstServer.database_url);
  bench = agentBench();
});
afterAll(async () => {
  await bench?.clear();
  await db?.close();
  if (server !== firstServer) await server?.stop();
  await firstServer?.stop();
});

async function readAllLines(id: string): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for (let cursor: string | null = null; ; ) {
    const query: { limit: number; cursor?: string } = { limit: 500, ...(cursor && { cursor }) };
    const page = await server.client.call('node-logs', { params: { id }, query });
    if (page.items.length === 0) return lines;
    lines.push(...page.items);
    cursor = page.next_cursor;
  }
}

it('stores every spooled line once and in order after kills of the agent and the server', async () => {
  await firstServer.client.call('pool-put', { params: { pool: 'writers' }, body: { driver: 'external' } });
  const { token } = await firstServer.client.call('join-token-create', { params: { pool: 'writers' } });
  const noIds = { enrollment_token: null, node_id: null, node_instance_id: null };
  const config = { ...noIds, join_token: token, server_url: firstServer.url, command: ['/bin/sh', '-c', flood] };
  const dir = bench.dir();
  const countStored = () => db.countRows('select 1 from node_log_chunks cross join generate_series(1, lines)');
  const waitForLines = async () => {
    const earlierCount = await countStored();
    await until('200 more lines', async () => (await countStored()) > earlierCount + 200);
  };

  const firstAgent = bench.start(dir, config);
  await waitForLines();
  firstAgent.kill('SIGKILL');
  await firstAgent.exit;
  const secondAgent = bench.start(dir, config);
  await waitForLines();

  await db.query(`${trapSql} ${lockSql}`);
  await until('an insert of lines to wait for the lock', async () => {
    if ((await db.countRows(waitingInsertsSql)) > 0) return true;
    // Inserts of longer transactions may pass, because a kill of the server would undo them.
    await db.query(`${unlockSql}; ${lockSql}`);
    return false;
  });
  const storedBeforeKill = await countStored();
  await server.kill();
  // The database finishes the statement, although its client is gone.
  await db.query(unlockSql);
  await until('the lines to be stored after the kill', async () => (await countStored()) > storedBeforeKill);
  secondAgent.kill('SIGKILL');
  await secondAgent.exit;
  bench.start(dir, config);
  server = await spawnServer({ beside: firstServer, port });
  await rm(firstServer.data_dir, { recursive: true, force: true });
  await waitForLines();
  writeFileSync(join(dir, 'enough'), '');

  const [node] = (await server.client.call('node-list', {})).items;
  const id = node?.node_id ?? '';
  await until('the last line', async () => {
    const { items } = await server.client.call('node-logs', { params: { id }, query: { tail: true, q: 'final' } });
    return items.length > 0;
  });
  const lines = await readAllLines(id);
  expect(new Set(lines.map(({ node_instance_id }) => node_instance_id)).size).toBe(1);
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index + 1));
  const counts = lines.filter(({ line }) => line.startsWith('count ')).map(({ line }) => Number(line.slice(6)));
  expect(counts).toEqual([...new Set(counts)].toSorted((a, b) => a - b));
  expect(counts.length).toBeGreaterThan(600);
}, 120_000);
