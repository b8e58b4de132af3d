/**
 * Tests logs over HTTP. A server that cannot store lines asks for a retry and loses none. It
 * forwards stored lines with their ids.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../support/until.ts';
import { expectProblem } from '../support/calls.ts';
import type { Machine } from '../support/machine.ts';
import { externalPool, externalServer, readyMachine, waitUntilActive } from '../support/tenants.ts';

let receiverStatus = 204;
const received: { path: string; text: string }[] = [];
const receiver = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  received.push({ path: request.url ?? '', text });
  response.writeHead(receiverStatus).end();
});
let server: Awaited<ReturnType<typeof externalServer>>;
let machine: Machine;

beforeAll(async () => {
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  server = await externalServer({ args: ['--loki-endpoint', address, '--otlp-logs-endpoint', address] });
  machine = await readyMachine(server, 'writer');
});
afterAll(async () => {
  await server?.stop();
  receiver.close();
});

const readLines = async (id: string) =>
  (await server.client.call('node-logs', { params: { id } })).items.map(({ line }) => line);
const readMetrics = async () =>
  (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } })).text();
const textsSentTo = (path: string) => received.filter((each) => each.path === path).map(({ text }) => text);

it('answers 429 with a retry time while it cannot store lines, and keeps two batches per node in memory', async () => {
  expect((await machine.log(1, 'first')).body).toEqual({ acknowledged_seq: 1 });
  const blocker = new pg.Client(server.database_url);
  await blocker.connect();
  await blocker.query('begin');
  await blocker.query('select 1 from node_log_ends for update');
  const heldRequests = [machine.log(2, 'second'), machine.log(2, 'second')];
  // One batch is shorter than a hundred bytes, so three digits mean two batches.
  await until('both batches to be held', async () => /^slipway_logs_held_bytes [1-9]\d\d/m.test(await readMetrics()));
  const refusal = await until('a refusal with a retry time', async () => {
    const answer = await machine.log(2, 'second');
    return answer.status === 429 ? answer : undefined;
  });
  expectProblem(refusal, 'logs_slow_down');
  expect(refusal.body).toMatchObject({ retry_after_seconds: 1, owner_layer: 'control_plane' });
  expect(refusal.headers.get('retry-after')).toBe('1');
  await blocker.query('rollback');
  await blocker.end();
  for (const each of await Promise.all(heldRequests)) expect(each.body).toEqual({ acknowledged_seq: 2 });
  expect((await machine.log(2, 'second')).body).toEqual({ acknowledged_seq: 2 });
  expect(await readLines(machine.node_id)).toEqual(['first', 'second']);
  expect(await readMetrics()).toMatch(/^slipway_logs_slowed_total [1-9]/m);
});

it('forwards stored lines with ids and redacted secrets, and keeps a line that a receiver refuses', async () => {
  const { allocation } = await server.client.call('allocation-create', { body: { pool: externalPool } });
  const active = await waitUntilActive(server.client, allocation.allocation_id);
  expect(active.node_id).toBe(machine.node_id);
  await machine.log(3, 'listening, password=hunter2');
  const texts = await until('both receivers to get the line', () => {
    const matches = ['/loki/api/v1/push', '/v1/logs'].map((path) =>
      textsSentTo(path).find((text) => text.includes('listening')),
    );
    return matches.every((text) => text !== undefined) ? matches : undefined;
  });
  const [row] = await server.tables.query<{ correlation_id: string; workflow_id: string }>(
    'select correlation_id, workflow_id from allocations where allocation_id = $1',
    [allocation.allocation_id],
  );
  const { node_id, node_instance_id } = machine;
  const ids = {
    node_id,
    node_instance_id,
    allocation_id: allocation.allocation_id,
    correlation_id: row?.correlation_id,
  };
  for (const text of texts) {
    for (const id of Object.values(ids)) expect(text).toContain(`"${id}"`);
    expect(text).toContain('"workflow_id"');
    expect(text).not.toContain('hunter2');
  }
  receiverStatus = 400;
  await machine.log(4, 'refused by the receiver');
  await until('the dropped line in the metrics', async () =>
    /^slipway_logs_forward_dropped_lines_total{receiver="loki"} 1$/m.test(await readMetrics()),
  );
  expect((await readLines(machine.node_id)).slice(2)).toEqual([
    'listening, password=[struck out]',
    'refused by the receiver',
  ]);
});

it("refuses the lines of a fenced instance, but stores them for the fleet's operators", async () => {
  const formerMachine = await readyMachine(server, 'former');
  const { allocation } = await server.client.call('allocation-create', { body: { pool: externalPool } });
  const { node_id: id, tenant } = await waitUntilActive(server.client, allocation.allocation_id);
  expect(id).toBe(formerMachine.node_id);
  await formerMachine.log(1, 'while it was allocated');
  const { token } = await server.tokenFor('viewer', { tenant });
  const readTenantLines = async () =>
    (await server.as(token).call('node-logs', { params: { id: formerMachine.node_id } })).items.map(({ line }) => line);
  expect(await readTenantLines()).toEqual(['while it was allocated']);
  await formerMachine.beat('stopping');
  const reEnroll = {
    params: { id: formerMachine.node_id, action: 're-enroll' },
    body: { reason: 'its disk was lost' },
  } as const;
  await server.client.call('node-act', reEnroll);
  await until('the replica to refuse the instance', async () => (await formerMachine.beat()).status === 409);
  const refusal = await formerMachine.log(2, 'a late line');
  expectProblem(refusal, 'instance_fenced');
  expect(refusal.body).toMatchObject({ acknowledged_seq: 2 });
  expect(await readLines(formerMachine.node_id)).toEqual(['while it was allocated', 'a late line']);
  expect(await readTenantLines()).toEqual(['while it was allocated']);
});

it('refuses and drops lines of a retired machine', async () => {
  const machine = await readyMachine(server, 'gone');
  const params = { id: machine.node_id, action: 'retire' } as const;
  await server.client.call('node-act', { params, body: { reason: 'it is sold' } });
  await until('the machine to be retired', async () => {
    const { status } = await server.client.call('node-get', { params: { id: machine.node_id } });
    return status === 'retired';
  });
  await until('the lines to be refused', async () => {
    const { body } = await machine.log(1, 'a line of a retired machine');
    return body.code === 'instance_fenced' && !('acknowledged_seq' in body);
  });
});
