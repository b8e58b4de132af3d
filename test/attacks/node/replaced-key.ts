/**
 * The attacker holds the bearer credential of a machine that serves a tenant, and signs the proof
 * of cleaning itself.
 */
import { newKeyPair, publicKeyOf, signed } from '../../../src/agent/connection/keys.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import { keyChangeBody } from '../../../src/contract/agent/key-change.ts';
import { keyProofBody } from '../../../src/contract/agent/key-proof.ts';
import { callRoute } from '../../api/support/calls.ts';
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
  return { machine, join_token, allocation_id: allocation.allocation_id };
}

/** Registers another key with the credential, signed by the given signer. */
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

/** Whether the release that the attacker answers ends with a proof. */
async function isProvenClean({ client }: SpawnedServer, machine: Machine, allocation_id: string): Promise<boolean> {
  const params = { id: allocation_id };
  await client.call('allocation-release', { params, body: {} });
  const ends = ['released', 'release_failed'];
  await machine.work(async () => ends.includes((await client.call('allocation-get', { params })).status));
  return (await client.call('allocation-get', { params })).status === 'released';
}

const refusal: SourceEdit = {
  file: 'src/operations/release/proof.ts',
  find: 'if (reuse) refuseUnprovenKey(subject, standing, answer);',
  replace: '',
};

export const replacedKeyAttacks: Attack[] = [
  {
    name: 'replaces the key with the credential and signs that the machine is clean',
    without: [refusal],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'replaced-key');
      await changeKey(machine);
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: 'signs the change of key with the new key',
    without: [
      {
        file: 'src/store/agents/agent-keys/key-change.ts',
        find: 'return isSignedWith(trusted, canonicalJson(body), key_change.signature);',
        replace: 'return isSignedWith(key, canonicalJson(body), key_change.signature);',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'self-signed');
      await changeKey(machine, (_, next) => next);
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: 'launders an unproven key with a second change that it signs',
    without: [
      {
        file: 'src/store/agents/agent-keys/key-change.ts',
        find: 'const trusted = trustedKeyOf(former);',
        replace: 'const trusted = former.agent_public_key;',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'laundered');
      await changeKey(machine);
      await changeKey(machine, (former) => former);
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: 'makes an operator accept a key other than the one shown',
    without: [
      {
        file: 'src/operations/actions/accept-key.ts',
        find: 'requireSeenKey(acting.request.fingerprint, fingerprint);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { machine, allocation_id } = await servingMachine(server, 'swapped');
      await changeKey(machine);
      const params = { id: machine.node_id, action: 'accept-key' as const };
      const reason = 'the machine lost its disk';
      const { predicts } = await server.client.call('node-act', { params, body: { reason, dry_run: true } });
      await changeKey(machine);
      const fingerprint = predicts.fingerprint ?? '';
      await server.client.call('node-act', { params, body: { reason, fingerprint } }).catch(() => {});
      return isProvenClean(server, machine, allocation_id);
    },
  },
  {
    name: 'locks the machine out of rotation by replacing its key',
    without: [
      {
        file: 'src/store/agents/credentials/rotate.ts',
        find: 'if (isSignedBy(trustedKeyOf(instance))) return;',
        replace: 'if (trustedKeyOf(instance) === agent_public_key && isSignedBy(agent_public_key)) return;',
      },
    ],
    async succeeds(server) {
      const { machine } = await servingMachine(server, 'locked-out');
      const own = machine.private_key;
      await changeKey(machine);
      const { node_instance_id, credential } = machine;
      const signature = signed(own, rotationBody({ node_instance_id, credential }));
      return (await machine.call('agent-credential-rotate', { body: { signature } })).status !== 200;
    },
  },
  {
    name: 'joins as the machine with a replaced key',
    without: [
      {
        file: 'src/store/agents/agent-keys/trusted-key.ts',
        find: 'standing.key_unproven_since === null ? standing.agent_public_key : standing.trusted_public_key;',
        replace: 'standing.agent_public_key;',
      },
    ],
    async succeeds(server) {
      const { machine, join_token } = await servingMachine(server, 'joined-by-stranger');
      await changeKey(machine);
      const request = { join_token, name: 'victim', agent_public_key: publicKeyOf(machine.private_key) };
      const signed_at = moment(systemClock.nowMs()).toISOString();
      const signature = signed(machine.private_key, keyProofBody({ ...request, signed_at }));
      const body = { version: 'test', ...request, key_proof: { signed_at, signature } };
      return (await callRoute(server.url, 'agent-register', { body })).status === 200;
    },
  },
];
