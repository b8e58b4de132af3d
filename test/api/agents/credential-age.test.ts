/**
 * Expired credentials are refused with a code of their own, and a signature of the agent's key
 * renews them. The explanation of a silent node names its expired credential.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { type Machine, startMachine } from '../support/machine.ts';
import { externalServer } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer({ args: ['--credential-seconds', '2', '--credential-grace-seconds', '20'] });
});
afterAll(() => server.stop());

const startRotatingMachine = (name: string): Promise<Machine> =>
  startMachine(server.url, { join_token: server.join_token, name }, { rotates_credential: true });

const rotate = (machine: Machine, private_key: string | null) => {
  const { node_instance_id, credential } = machine;
  const body = private_key
    ? { signature: signatureOf(private_key, rotationBody({ node_instance_id, credential })) }
    : {};
  return machine.call('agent-credential-rotate', { body });
};

const waitForExpiry = (machine: Machine) =>
  until('the credential to be refused', async () => {
    const { status, body } = await machine.beat();
    return status === 401 && body.code === 'credential_expired';
  });

it('refuses an expired credential, and renews it only with a signature of the key', async () => {
  const machine = await startRotatingMachine('sleeper');
  expect(Date.parse(machine.credential_expires_at ?? '')).toBeGreaterThan(0);
  await machine.beat('ready');
  await waitForExpiry(machine);

  const { credential, node_id } = machine;
  const batch = await callRoute(server.url, 'agent-heartbeats', { body: { beats: [{ credential }] } });
  expect(batch.body).toMatchObject({ results: [{ code: 'credential_expired', status: 401 }] });
  for (const call of ['agent-task-next', 'agent-register'] as const)
    expectProblem(
      await machine.call(call, { body: call === 'agent-register' ? { version: 't' } : undefined }),
      'credential_expired',
    );
  await until('the explanation to name the expired credential', async () => {
    const { waiting_for, because } = await server.client.call('node-explain', { params: { id: node_id } });
    const refusal = because.evidence.find(({ kind }) => kind === 'beat.refused');
    return waiting_for !== null && refusal?.data.code === 'credential_expired';
  });

  expectProblem(await rotate(machine, null), 'rotation_unsigned');
  expectProblem(await rotate(machine, newKeyPair()), 'rotation_unsigned');
  const rotation = await rotate(machine, machine.private_key);
  expect(rotation.status, rotation.text).toBe(200);
  const repeatedRotation = await rotate(machine, machine.private_key);
  expect(repeatedRotation.status, 'a repeated rotation after a lost reply').toBe(200);
  machine.credential = String(repeatedRotation.body.credential);
  expect((await machine.beat()).status).toBe(200);
  await until('the explanation to wait for nothing', async () => {
    const { waiting_for } = await server.client.call('node-explain', { params: { id: node_id } });
    return waiting_for === null;
  });
});

it('issues a credential without expiry to an agent that does not rotate', async () => {
  const machine = await startMachine(server.url, { join_token: server.join_token, name: 'plain' });
  expect(machine.credential_expires_at).toBeNull();
});

it('does not renew a credential for an unproven key', async () => {
  const machine = await startRotatingMachine('robbed');
  machine.private_key = newKeyPair();
  const body = { version: 'test', agent_public_key: publicKeyOf(machine.private_key) };
  expect((await machine.call('agent-register', { body })).status).toBe(200);
  expectProblem(await rotate(machine, machine.private_key), 'rotation_unsigned');
});

it('renews a credential for the last proven key, and drops the unproven key', async () => {
  const machine = await startRotatingMachine('robbed-and-back');
  const body = { version: 'test', agent_public_key: publicKeyOf(newKeyPair()) };
  expect((await machine.call('agent-register', { body })).status).toBe(200);
  const rotation = await rotate(machine, machine.private_key);
  expect(rotation.status, rotation.text).toBe(200);
  const [row] = await server.tables.query(
    'select agent_public_key, key_unproven_since from instances where node_instance_id = $1',
    [machine.node_instance_id],
  );
  expect(row).toEqual({ agent_public_key: publicKeyOf(machine.private_key), key_unproven_since: null });
});

it('does not renew a credential after its grace period', async () => {
  const machine = await startRotatingMachine('gone-for-long');
  await server.tables.query(
    "update instances set credential_expires_at = now() - interval '1 day' where node_instance_id = $1",
    [machine.node_instance_id],
  );
  expectProblem(await rotate(machine, machine.private_key), 'credential_expired');
});
