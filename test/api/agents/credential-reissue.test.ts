/**
 * After a restore, a machine whose credential is newer than the backup gets a new one by a
 * signature of its key. The attacks on this are in test/attacks/node/lost-credential.ts.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newKeyPair, publicKeyOf } from '../../../src/agent/connection/keys.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { isReissued, loseCredential, sendReissue, signReissue } from '../support/lost-credential.ts';
import { externalServer, readyMachine } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer();
});
afterAll(() => server.stop());

const beatWith = async (credential: string) =>
  (await callRoute(server.url, 'agent-heartbeat', { body: {} }, { bearer: credential })).status;

const listFacts = (kind: string, node_id: string) =>
  server.tables.query<{ data: Record<string, unknown>; allocation_id: string | null }>(
    'select data, allocation_id from evidence where kind = $1 and node_id = $2',
    [kind, node_id],
  );

it('issues a credential to a machine that has a restored row, once for each signature', async () => {
  const machine = await readyMachine(server, 'returning');
  const stored = machine.credential;
  await loseCredential(server.database_url, machine);
  expectProblem(await machine.beat(), 'credential_unknown');

  const request = signReissue(machine);
  const { status, body, text } = await sendReissue(server.url, request);
  expect(status, text).toBe(200);
  expect(Date.parse(String(body.credential_expires_at))).toBeGreaterThan(Date.now());
  expect(await isReissued(server.url, request), 'the same signature again').toBe(false);
  // The reply may be lost, so the agent may ask again, and the stored credential stays valid.
  const { body: second } = await sendReissue(server.url, signReissue(machine));
  expect(await beatWith(String(body.credential)), 'the credential of the lost reply').toBe(401);
  expect(await beatWith(stored)).toBe(200);
  expect(await beatWith(String(second.credential))).toBe(200);
  expect(await beatWith(stored), 'after the first use of the new one').toBe(401);
  expect(await isReissued(server.url, signReissue(machine)), 'a copy of the machine asks too').toBe(false);
  expect(await listFacts('credential.reissued', machine.node_id)).toHaveLength(2);
});

it('refuses a machine whose credential is stored', async () => {
  const machine = await readyMachine(server, 'known');
  const { credential } = machine;
  await loseCredential(server.database_url, machine);
  expect(await isReissued(server.url, signReissue({ ...machine, credential }))).toBe(false);
  const { body } = await sendReissue(server.url, signReissue(machine));
  const next = String(body.credential);
  expect(await isReissued(server.url, signReissue({ ...machine, credential: next })), 'not used yet').toBe(false);
  expect(await isReissued(server.url, signReissue(machine))).toBe(true);
});

it('refuses a machine without a key, a foreign client, and a retired node', async () => {
  const machine = await readyMachine(server, 'changing');
  await loseCredential(server.database_url, machine);
  const change = (set: string) =>
    server.tables.query(`update instances set ${set} where node_instance_id = $1`, [machine.node_instance_id]);
  const key = publicKeyOf(machine.private_key);
  for (const [set, reset] of [
    [
      'agent_public_key = null, trusted_public_key = null',
      `agent_public_key = '${key}', trusted_public_key = '${key}'`,
    ],
    ["door = 'agentfield'", 'door = null'],
    ['fenced_at = now()', 'fenced_at = null'],
    ['revoked_at = now()', 'revoked_at = null'],
    ['registered_at = null', "registered_at = now() - interval '1 hour'"],
  ] as const) {
    await change(set);
    expect(await isReissued(server.url, signReissue(machine)), set).toBe(false);
    await change(reset);
  }
  await server.tables.query("update nodes set status = 'retired' where node_id = $1", [machine.node_id]);
  expect(await isReissued(server.url, signReissue(machine)), 'retired').toBe(false);
  await server.tables.query("update nodes set status = 'ready' where node_id = $1", [machine.node_id]);
  expect(await isReissued(server.url, signReissue(machine))).toBe(true);
});

it('refuses a leap second, whose time cannot be compared', async () => {
  const machine = await readyMachine(server, 'leaping');
  await loseCredential(server.database_url, machine);
  expectProblem(await sendReissue(server.url, signReissue(machine, '2029-12-31T23:59:60Z')), 'reissue_refused');
});

it('accepts the last proven key, and drops an unproven one', async () => {
  const machine = await readyMachine(server, 'doubted');
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'outside' } });
  await until('the allocation to hold the machine', async () => {
    const { status } = await server.client.call('allocation-get', { params: { id: allocation.allocation_id } });
    await machine.beat();
    return status === 'active';
  });
  const { node_id, node_instance_id } = machine;
  const other = newKeyPair();
  const body = { version: 'test', agent_public_key: publicKeyOf(other) };
  // The pool has several free machines, so the allocation may hold another one.
  await server.tables.query('update allocations set node_id = $1 where allocation_id = $2', [
    node_id,
    allocation.allocation_id,
  ]);
  expect((await machine.call('agent-register', { body })).status).toBe(200);
  await loseCredential(server.database_url, machine);
  expect(await isReissued(server.url, signReissue({ ...machine, private_key: other }))).toBe(false);
  expect(await isReissued(server.url, signReissue(machine))).toBe(true);
  const [row] = await server.tables.query(
    'select agent_public_key, key_unproven_since from instances where node_instance_id = $1',
    [node_instance_id],
  );
  expect(row).toEqual({ agent_public_key: publicKeyOf(machine.private_key), key_unproven_since: null });
});

it('records a wrong signature as evidence of the machine, once for several tries', async () => {
  const machine = await readyMachine(server, 'attempted');
  await loseCredential(server.database_url, machine);
  for (let times = 0; times < 9; times++)
    expect(await isReissued(server.url, signReissue({ ...machine, private_key: newKeyPair() }))).toBe(false);
  const facts = await until('the refusal to be recorded', async () => {
    const found = await listFacts('request.denied', machine.node_id);
    return found.length > 0 ? found : undefined;
  });
  const { node_instance_id } = machine;
  const data = { operation: 'agent-credential-reissue', code: 'reissue_refused', target_id: node_instance_id };
  expect(facts).toMatchObject([{ data, allocation_id: null }]);
});
