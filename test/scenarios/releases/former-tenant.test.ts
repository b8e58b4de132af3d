/** A machine goes from one tenant to another. Neither sees data of the other. */
import { readdir, readFile } from 'node:fs/promises';
import { join as pathOf } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Client } from '../../../src/contract/client.ts';
import { startMachine } from '../../api/support/machine.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: SpawnedServer;
beforeAll(async () => {
  server = await spawnServer();
});
afterAll(() => server.stop());

const budgets = { offline_seconds: 0.5, rescue_seconds: 600 };
/** These machines leave by a goodbye. The long stale time keeps the liveness rule out. */
const heartbeat = { interval_seconds: 1, stale_after_seconds: 600 };

async function tenant(at: SpawnedServer, name: string): Promise<Client> {
  const { token } = await at.client.call('token-create', { body: { name, role: 'operator', tenant: name } });
  return at.as(token ?? '');
}

async function joinToken(): Promise<string> {
  const { token } = await server.client.call('join-token-create', { params: { pool: 'shared' } });
  return token ?? '';
}

async function join(name: string): Promise<Client> {
  const token = await joinToken();
  const { credential } = await server
    .as('')
    .call('agent-register', { body: { join_token: token, name, version: 'test' } });
  const agent = server.as(credential ?? '');
  await until(`${name} to be ready`, async () => {
    const answer = await agent.call('agent-heartbeat', { body: { status: 'ready' } });
    return answer.node_status === 'ready';
  });
  return agent;
}

const allocationOf = (client: Client, id: string) => client.call('allocation-get', { params: { id } });

const waitForAllocation = (client: Client, id: string, status: string) =>
  until(`the allocation to be ${status}`, async () => {
    const allocation = await client.call('allocation-get', { params: { id } });
    return allocation.status === status ? allocation : undefined;
  });

async function allocate(client: Client) {
  const { allocation } = await client.call('allocation-create', { body: { pool: 'shared' } });
  return waitForAllocation(client, allocation.allocation_id, 'active');
}

it('shows log lines of the machine to its current tenant only, even on a replica that just started', async () => {
  await server.client.call('pool-put', {
    params: { pool: 'shared' },
    body: { driver: 'external', budgets, heartbeat },
  });
  const acme = await tenant(server, 'acme');
  const bmart = await tenant(server, 'bmart');
  // The older allocation ends up on the machine of the newer one.
  const first = await join('m1');
  const older = await allocate(bmart);
  const second = await startMachine(server.url, { join_token: await joinToken(), name: 'm2' });
  await second.beat('ready');
  const newer = await allocate(acme);
  await acme.call('allocation-release', { params: { id: newer.allocation_id } });
  await second.work(async () => {
    const { status } = await acme.call('allocation-get', { params: { id: newer.allocation_id } });
    return status === 'released';
  });
  await first.call('agent-heartbeat', { body: { status: 'stopping' } });
  await waitForAllocation(bmart, older.allocation_id, 'failed');
  await bmart.call('allocation-retry', { params: { id: older.allocation_id } });
  expect((await waitForAllocation(bmart, older.allocation_id, 'active')).node_id).toBe(newer.node_id);

  const newReplica = await spawnServer({ beside: server });
  try {
    const { credential } = second;
    const line = JSON.stringify({ seq: 1, at: '2026-01-01T00:00:00Z', stream: 'stdout', line: 'for bmart only' });
    const logReply = await fetch(`${newReplica.url}/v1/agent/logs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/x-ndjson' },
      body: line,
    });
    expect(logReply.status).toBe(200);
  } finally {
    await newReplica.stop();
  }
  const params = { id: newer.node_id ?? '' };
  expect((await bmart.call('node-logs', { params })).items.map((each) => each.line)).toEqual(['for bmart only']);
  expect((await acme.call('node-logs', { params })).items).toEqual([]);

  // Evidence that is frozen at the release may hold lines of the former tenant, so only the fleet's
  // operators may read it.
  second.resultFields = { 'release.freeze': { lines: ['a line of acme'] } };
  await bmart.call('allocation-release', { params: { id: older.allocation_id } });
  await second.work(async () => (await allocationOf(bmart, older.allocation_id)).status === 'released');
  const readRecords = async (client: Client) => {
    const { items } = await client.call('timeline-get', { query: { node_id: newer.node_id ?? '', limit: 500 } });
    const frozen = items.filter(({ kind }) => kind === 'evidence.frozen');
    return { frozen: frozen.length, of_acme: items.filter((fact) => JSON.stringify(fact).includes('a line of acme')) };
  };
  const frozenKinds = await until('the frozen evidence', async () => {
    const seen = await readRecords(server.client);
    return seen.of_acme.length > 0 ? seen.of_acme.map(({ kind }) => kind) : undefined;
  });
  expect(frozenKinds).toContain('evidence.frozen');
  expect((await readRecords(bmart)).of_acme, 'data of the former tenant in the view of the next one').toEqual([]);
});

const manyLines = 20_000;

it('hands over a machine without data of its former tenant, which wrote until the last moment', async () => {
  // Only the first tenant's command writes this text, mostly after SIGTERM. The command assembles
  // it, so that the pool's document does not contain it.
  const writes = `s=carol; echo "of-$s" | tee ../left; trap 'seq -f "of-$s-%.0f" ${manyLines}; exit' TERM`;
  const command = [
    '/bin/sh',
    '-c',
    // Prints repeatedly, because the next tenant does not see lines from before the handover.
    `mkdir ${server.data_dir}/served && { ${writes}; }; while echo at work; do sleep 1; done & wait`,
  ];
  await server.client.call('pool-put', {
    params: { pool: 'again' },
    body: { driver: 'local', reuse: true, max_nodes: 1, spec: { command } },
  });
  const carol = await tenant(server, 'carol');
  const dave = await tenant(server, 'dave');
  const requestMachine = async (client: Client) =>
    (await client.call('allocation-create', { body: { pool: 'again' } })).allocation.allocation_id;
  const { allocation_id, node_id } = await waitForAllocation(carol, await requestMachine(carol), 'active');
  // This request already waits, so it gets the machine as soon as the machine is clean.
  const waitingId = await requestMachine(dave);
  await carol.call('allocation-release', { params: { id: allocation_id } });
  const next = await waitForAllocation(dave, waitingId, 'active');
  expect(next.node_id).toBe(node_id);

  const params = { id: node_id ?? '' };
  const readLines = async (client: Client, q: string) =>
    (await client.call('node-logs', { params, query: { q, limit: 500 } })).items.map(({ line }) => line);
  await until('log lines of the next tenant', async () => (await readLines(dave, 'at work')).length > 0);
  expect(await readLines(dave, 'of-carol'), 'data of the former tenant in the view of the next one').toEqual([]);
  const writtenLines = Array.from({ length: manyLines }, (_, i) => `of-carol-${i + 1}`);
  const searchText = '500';
  const keptLines = (await readLines(server.client, searchText)).filter((line) => line.startsWith('of-carol-'));
  expect(keptLines, "the former tenant's lines in the operators' view").toEqual(
    writtenLines.filter((line) => line.includes(searchText)),
  );
  expect(await readLines(server.client, `of-carol-${manyLines}`)).toHaveLength(1);

  const leftFiles: string[] = [];
  for (const each of await readdir(server.nodes_dir, { recursive: true, withFileTypes: true })) {
    const path = pathOf(each.parentPath, each.name);
    if (each.isFile() && /of-carol|alloc_/.test(await readFile(path, 'utf8'))) leftFiles.push(path);
  }
  expect(leftFiles, 'files of the former tenant').toEqual([]);
});
