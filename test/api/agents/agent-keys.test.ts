/**
 * An agent changes its key while its machine is allocated. The server accepts a change that the
 * former key signed. For any other change, an operator has to accept the new key.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { fingerprintOf } from '../../../src/base/credentials/ed25519.ts';
import { keyChangeBody } from '../../../src/contract/agent/key-change.ts';
import { expectProblem } from '../support/calls.ts';
import type { Machine } from '../support/machine.ts';
import { externalServer, readyMachine, waitUntilActive } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer();
});
afterAll(() => server.stop());

async function allocateMachine(name: string): Promise<{ machine: Machine; id: string }> {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await server.client.call('pool-put', { params: { pool: name }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool: name } });
  const machine = await readyMachine({ url: server.url, join_token }, name);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: name } });
  await waitUntilActive(server.client, allocation.allocation_id);
  return { machine, id: allocation.allocation_id };
}

async function changeKey(machine: Machine, isSigned: boolean) {
  const [former, next] = [machine.private_key, newKeyPair()];
  const [former_public_key, agent_public_key] = [publicKeyOf(former), publicKeyOf(next)];
  const body = keyChangeBody({ node_instance_id: machine.node_instance_id, former_public_key, agent_public_key });
  const key_change = isSigned && { key_change: { signature: signatureOf(former, body) } };
  const reply = await machine.call('agent-register', { body: { version: 'test', agent_public_key, ...key_change } });
  expect(reply.status, reply.text).toBe(200);
  machine.private_key = next;
}

const readStatus = async (id: string) => (await server.client.call('allocation-get', { params: { id } })).status;

const workUntil = (machine: Machine, id: string, ...statuses: string[]) =>
  machine.work(async () => statuses.includes(await readStatus(id)));

const release = async (machine: Machine, id: string) => {
  await server.client.call('allocation-release', { params: { id }, body: {} });
  await workUntil(machine, id, 'released', 'release_failed');
  return readStatus(id);
};

const readNode = ({ node_id }: Machine) => server.client.call('node-get', { params: { id: node_id } });

const readKeyChanges = ({ node_id }: Machine) =>
  server.tables.query<{ data: object }>(
    "select data from evidence where kind = 'credential.key_changed' and node_id = $1 order by at",
    [node_id],
  );

it('accepts proofs by the first key, even after the agent registered again', async () => {
  const { machine, id } = await allocateMachine('first-key');
  const body = { version: 'test', agent_public_key: publicKeyOf(machine.private_key) };
  expect((await machine.call('agent-register', { body })).status).toBe(200);
  expect(await release(machine, id)).toBe('released');
  expect(await readNode(machine)).toMatchObject({ status: 'ready', occupancy: 'free' });
  expect(await readKeyChanges(machine)).toEqual([]);
});

it('accepts proofs by a new key that the former key signed', async () => {
  const { machine, id } = await allocateMachine('signed-change');
  await changeKey(machine, true);
  expect(await release(machine, id)).toBe('released');
  expect(await readKeyChanges(machine)).toMatchObject([
    { data: { proven: true, needs_acceptance: false, via: 'credential' } },
  ]);
});

it('rejects proofs by an unsigned key until an operator accepts the key, and does not free the machine before', async () => {
  const { machine, id } = await allocateMachine('unsigned-change');
  await changeKey(machine, false);
  expect(await release(machine, id)).toBe('release_failed');
  expect(await readNode(machine)).toMatchObject({ status: 'cleaning', occupancy: 'cleanup' });
  expect(await readKeyChanges(machine)).toMatchObject([{ data: { proven: false, needs_acceptance: true } }]);
  const [failure] = await server.tables.query<{ data: object }>(
    "select data from evidence where kind = 'allocation.release_failed' and allocation_id = $1",
    [id],
  );
  expect(failure).toMatchObject({ data: { evidence: { code: 'proof_key_unproven' } } });

  const { token } = await server.tokenFor('operator', { tenant: 'acme' });
  const act = { params: { id: machine.node_id, action: 'accept-key' as const }, body: { reason: 'its disk was lost' } };
  await expect(server.as(token).call('node-act', act)).rejects.toMatchObject({
    problem: { code: 'scope_insufficient' },
  });
  const offers = await server.client.call('allocation-actions', { params: { id } });
  expect(offers.items.find(({ action }) => action === 'accept-key')).toMatchObject({ open: true });
  const preview = await server.client.call('node-act', { ...act, body: { ...act.body, dry_run: true } });
  const { fingerprint = '' } = preview.predicts;
  expect(fingerprint).toBe(fingerprintOf(publicKeyOf(machine.private_key)));
  await expect(server.client.call('node-act', act)).rejects.toMatchObject({ problem: { code: 'invalid_request' } });
  const acceptRequest = { ...act, body: { ...act.body, fingerprint } };
  await server.client.call('node-act', acceptRequest);
  const retryRequest = { params: { id, action: 'retry-release' as const }, body: { reason: 'the key is accepted' } };
  await server.client.call('allocation-act', retryRequest);
  await workUntil(machine, id, 'released');
  expect(await readNode(machine)).toMatchObject({ status: 'ready', occupancy: 'free' });
  await expect(server.client.call('node-act', acceptRequest)).rejects.toMatchObject({
    problem: { code: 'action_illegal' },
  });
});

it('accepts proofs by the last proven key, even after unproven keys replaced it', async () => {
  const { machine, id } = await allocateMachine('robbed');
  const provenKey = machine.private_key;
  await changeKey(machine, false);
  await changeKey(machine, true);
  machine.private_key = provenKey;
  expect(await release(machine, id)).toBe('released');
});

it('records a return to the last proven key as a proven change, without an operator', async () => {
  const { machine, id } = await allocateMachine('back-again');
  const provenKey = machine.private_key;
  await changeKey(machine, false);
  const body = { version: 'test', agent_public_key: publicKeyOf(provenKey) };
  expect((await machine.call('agent-register', { body })).status).toBe(200);
  expect(await readKeyChanges(machine)).toMatchObject([{ data: { proven: false } }, { data: { proven: true } }]);
  const offers = await server.client.call('allocation-actions', { params: { id } });
  expect(offers.items.find(({ action }) => action === 'accept-key')).toMatchObject({ open: false });
});

it('treats a key stored by an earlier version as unproven, and still accepts the key before it', async () => {
  const { machine, id } = await allocateMachine('older-replica');
  const unprovenKey = publicKeyOf(newKeyPair());
  // Version 0.1.0 stored keys like this, without marking unproven ones.
  await server.tables.query('update instances set agent_public_key = $2 where node_instance_id = $1', [
    machine.node_instance_id,
    unprovenKey,
  ]);
  const [row] = await server.tables.query(
    'select agent_public_key, trusted_public_key, key_unproven_since from instances where node_instance_id = $1',
    [machine.node_instance_id],
  );
  const trusted_public_key = publicKeyOf(machine.private_key);
  expect(row).toEqual({ agent_public_key: unprovenKey, trusted_public_key, key_unproven_since: expect.any(Date) });
  expect(await release(machine, id)).toBe('released');
});

it('refuses a malformed signature', async () => {
  const machine = await readyMachine(server, 'odd-signature');
  const body = { version: 'test', key_change: { signature: 'x' } };
  expectProblem(await machine.call('agent-register', { body }), 'invalid_request');
});
