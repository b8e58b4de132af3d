/**
 * The attacker has copied the bearer credential of a machine that serves a tenant, and replaces the
 * machine's key, for example to sign a false proof of cleaning.
 */
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import { keyChangeBody } from '../../../src/contract/agent/key-change.ts';
import { keyProofBody } from '../../../src/contract/agent/key-proof.ts';
import { callRoute } from '../../api/support/calls.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import { waitUntilActive } from '../../api/support/tenants.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';

async function startServingMachine({ client, url }: SpawnedServer, pool: string) {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'victim' });
  await machine.beat('ready');
  const { allocation } = await client.call('allocation-create', { body: { pool } });
  await waitUntilActive(client, allocation.allocation_id);
  return { machine, join_token, allocation_id: allocation.allocation_id };
}

/**
 * Registers another key with the credential. `pickKey` chooses the key that signs the change;
 * without it, the change is not signed.
 */
async function changeKey(machine: Machine, pickKey?: (former: string, next: string) => string): Promise<void> {
  const formerKey = machine.private_key;
  const nextKey = newKeyPair();
  const [former_public_key, agent_public_key] = [publicKeyOf(formerKey), publicKeyOf(nextKey)];
  const { node_instance_id } = machine;
  const body = keyChangeBody({ node_instance_id, former_public_key, agent_public_key });
  const key_change = pickKey && { key_change: { signature: signatureOf(pickKey(formerKey, nextKey), body) } };
  await machine.call('agent-register', { body: { version: 'test', agent_public_key, ...key_change } });
  machine.private_key = nextKey;
}

/**
 * Releases the allocation and returns whether the server accepts the attacker's proof of cleaning.
 */
async function releasesAsClean({ client }: SpawnedServer, machine: Machine, allocation_id: string): Promise<boolean> {
  const params = { id: allocation_id };
  await client.call('allocation-release', { params, body: {} });
  const finalStatuses = ['released', 'release_failed'];
  await machine.work(async () => finalStatuses.includes((await client.call('allocation-get', { params })).status));
  return (await client.call('allocation-get', { params })).status === 'released';
}

const unprovenKeyCheck: SourceEdit = {
  file: 'src/operations/release/proof.ts',
  find: 'if (reuse) refuseUnprovenKey(subject, standing, answer);',
  replace: '',
};

export const replacedKeyAttacks: Attack[] = [
  {
    name: 'registers another key with a copied credential and signs with it that the machine is clean',
    without: [unprovenKeyCheck],
    async succeeds(server) {
      const { machine, allocation_id } = await startServingMachine(server, 'replaced-key');
      await changeKey(machine);
      return releasesAsClean(server, machine, allocation_id);
    },
  },
  {
    name: 'signs the key change with the new key',
    without: [
      {
        file: 'src/store/agents/agent-keys/key-change.ts',
        find: 'return isSignedWith(trusted, canonicalJson(body), key_change.signature);',
        replace: 'return isSignedWith(key, canonicalJson(body), key_change.signature);',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await startServingMachine(server, 'self-signed');
      await changeKey(machine, (_, next) => next);
      return releasesAsClean(server, machine, allocation_id);
    },
  },
  {
    name: 'makes an unproven key trusted by signing a second key change with it',
    without: [
      {
        file: 'src/store/agents/agent-keys/key-change.ts',
        find: 'const trusted = trustedKeyOf(former);',
        replace: 'const trusted = former.agent_public_key;',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await startServingMachine(server, 'laundered');
      await changeKey(machine);
      await changeKey(machine, (former) => former);
      return releasesAsClean(server, machine, allocation_id);
    },
  },
  {
    name: 'makes an operator accept a key other than the one shown',
    without: [
      {
        file: 'src/operations/actions/accept-key.ts',
        find: 'requireSeenKey(context.request.fingerprint, fingerprint);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await startServingMachine(server, 'swapped');
      await changeKey(machine);
      const params = { id: machine.node_id, action: 'accept-key' as const };
      const reason = 'the machine lost its disk';
      const { predicts } = await server.client.call('node-act', { params, body: { reason, dry_run: true } });
      await changeKey(machine);
      const fingerprint = predicts.fingerprint ?? '';
      await server.client.call('node-act', { params, body: { reason, fingerprint } }).catch(() => {});
      return releasesAsClean(server, machine, allocation_id);
    },
  },
  {
    name: 'keeps the machine from rotating its credential by replacing its key',
    without: [
      {
        file: 'src/store/agents/credentials/rotate.ts',
        find: 'if (isSignedBy(trustedKeyOf(instance))) return;',
        replace: 'if (trustedKeyOf(instance) === agent_public_key && isSignedBy(agent_public_key)) return;',
      },
    ],
    async succeeds(server) {
      const { machine } = await startServingMachine(server, 'locked-out');
      const ownKey = machine.private_key;
      await changeKey(machine);
      const { node_instance_id, credential } = machine;
      const signature = signatureOf(ownKey, rotationBody({ node_instance_id, credential }));
      return (await machine.call('agent-credential-rotate', { body: { signature } })).status !== 200;
    },
  },
  {
    name: "joins under the machine's name with a key registered with a copied credential",
    without: [
      {
        file: 'src/store/agents/agent-keys/trusted-key.ts',
        find: 'standing.key_unproven_since === null ? standing.agent_public_key : standing.trusted_public_key;',
        replace: 'standing.agent_public_key;',
      },
    ],
    async succeeds(server) {
      const { machine, join_token } = await startServingMachine(server, 'joined-by-stranger');
      await changeKey(machine);
      const request = { join_token, name: 'victim', agent_public_key: publicKeyOf(machine.private_key) };
      const signed_at = moment(systemClock.nowMs()).toISOString();
      const signature = signatureOf(machine.private_key, keyProofBody({ ...request, signed_at }));
      const body = { version: 'test', ...request, key_proof: { signed_at, signature } };
      return (await callRoute(server.url, 'agent-register', { body })).status === 200;
    },
  },
];
