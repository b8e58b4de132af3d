/** The attacker holds the bearer credential of a machine that serves a tenant, and signs the proof of cleaning itself. */
import { newKeyPair, publicKeyOf, signed } from '../../../src/agent/keys.ts';
import { keyChangeBody } from '../../../src/contract/key-change.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import { activeOne } from '../../api/support/tenants.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';

async function servingMachine({ client, url }: SpawnedServer, pool: string) {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'victim' });
  await machine.beat('ready');
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  await activeOne(client, allocation.allocation_id);
  return { machine, allocation_id: allocation.allocation_id };
}

/** Registers another key by the credential, signed by whatever key is given. */
async function changeKey(machine: Machine, signer?: (from: string, to: string) => string): Promise<void> {
  const former = machine.private_key;
  const next = newKeyPair();
  const [former_public_key, agent_public_key] = [publicKeyOf(former), publicKeyOf(next)];
  const { node_instance_id } = machine;
  const body = keyChangeBody({ node_instance_id, former_public_key, agent_public_key });
  const key_change = signer && { key_change: { signature: signed(signer(former, next), body) } };
  await machine.call('agent-register', { body: { version: 'test', agent_public_key, ...key_change } });
  machine.private_key = next;
}

/** Whether the release that the attacker answers for ends with a proof. */
async function isProvenClean({ client }: SpawnedServer, machine: Machine, allocation_id: string): Promise<boolean> {
  const params = { id: allocation_id };
  await client.call('allocation-release', { params, body: {} });
  const ends = ['released', 'release_failed'];
  await machine.work(async () => ends.includes((await client.call('allocation-get', { params })).status));
  return (await client.call('allocation-get', { params })).status === 'released';
}

const refusal: SourceEdit = {
  file: 'src/operations/proof.ts',
  find: 'if (reuse) await refuseUnprovenKey(services, subject);',
  replace: '',
};

export const replacedKeyAttacks: Attack[] = [
  {
    name: '13: replaces the key by the credential and signs that the machine is clean',
    without: [refusal],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'replaced-key');
      await changeKey(machine);
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: '13: signs the change of key with the new key',
    without: [
      {
        file: 'src/store/agent-keys/key-change.ts',
        find: 'return isSignedWith(former_public_key, canonicalJson(body), key_change.signature);',
        replace: 'return isSignedWith(agent_public_key, canonicalJson(body), key_change.signature);',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'self-signed');
      await changeKey(machine, (_, next) => next);
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: '13: launders an unproven key by a second change that it signs',
    without: [
      {
        file: 'src/store/agent-keys/key-change.ts',
        find: 'proven || harmless ? key_unproven_since : now',
        replace: 'proven || harmless ? null : now',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'laundered');
      await changeKey(machine);
      await changeKey(machine, (former) => former);
      return isProvenClean(server, machine, allocation_id);
    },
  },
];
