/**
 * The server was restored from a backup, so it issues a new credential to a machine whose own is
 * newer than the backup. The attacker asks for the credential of such a machine.
 */
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import { isReissued, loseCredential, signReissue } from '../../api/support/lost-credential.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import { withClient } from '../../support/database.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { createPoolWithToken, startMachineInNewPool } from '../support/floods.ts';

const reissue = 'src/store/agents/credentials/reissue.ts';
const signatureCheck: SourceEdit = {
  file: reissue,
  find: 'return trusted !== null && isSigned;',
  replace: 'return true;',
};

async function startLostMachine(server: SpawnedServer, pool: string): Promise<Machine> {
  const machine = await startMachineInNewPool(server, pool);
  await loseCredential(server.database_url, machine);
  return machine;
}

const change = (server: SpawnedServer, text: string, values: unknown[] = []) =>
  withClient(server.database_url, (client) => client.query(text, values));

export const lostCredentialAttacks: Attack[] = [
  {
    name: 'lost credential: asks with a copied credential, but without the key',
    without: [signatureCheck],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'copied');
      return isReissued(server.url, signReissue({ ...machine, private_key: newKeyPair() }));
    },
  },
  {
    name: 'lost credential: asks with the signature and the credential of another machine',
    without: [signatureCheck],
    async succeeds(server) {
      const { node_instance_id } = await startLostMachine(server, 'robbed');
      const other = await startMachineInNewPool(server, 'robber');
      const forOther = { ...signReissue(other), node_instance_id };
      const forVictim = signReissue({ ...other, node_instance_id });
      const options = { bearer: other.credential };
      return (await isReissued(server.url, forOther, options)) || isReissued(server.url, forVictim, options);
    },
  },
  {
    name: 'lost credential: replays a signature that the machine made for a rotation',
    without: [
      {
        file: reissue,
        find: 'canonicalJson(reissueBody(request))',
        replace:
          "canonicalJson({ ...reissueBody(request), purpose: 'slipway-credential-rotation', signed_at: undefined })",
      },
    ],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'rotated');
      const signature = signatureOf(machine.private_key, rotationBody(machine));
      return isReissued(server.url, { ...signReissue(machine), signature });
    },
  },
  {
    name: 'lost credential: sends a signature that the machine made ten minutes ago',
    without: [
      {
        file: 'src/store/agents/agent-keys/proof-time.ts',
        find: "if (!(Math.abs(secondsBetween(signed_at, now)) <= maxSkewSeconds)) return 'stale';",
        replace: '',
      },
    ],
    async succeeds(server) {
      // The machine sends no heartbeat, because the server might store its time after the update
      // below.
      const join_token = await createPoolWithToken(server, 'delayed');
      const machine = await startMachine(server.url, { join_token, name: 'delayed' });
      await loseCredential(server.database_url, machine);
      // The restoration began before the signature, so only its age is wrong.
      await change(server, "update restorations set began_at = now() - interval '30 minutes'");
      await change(
        server,
        "update heartbeats set last_seen_at = now() - interval '1 hour' where node_instance_id = $1",
        [machine.node_instance_id],
      );
      return isReissued(server.url, signReissue(machine, secondsLater(now(systemClock), -600).toISOString()));
    },
  },
  {
    name: 'lost credential: repeats a request that the server has accepted',
    without: [
      {
        file: 'src/store/agents/agent-keys/proof-time.ts',
        find: "key_proven_at && signed_at <= key_proven_at ? 'replayed' : null",
        replace: 'key_proven_at ? null : null',
      },
    ],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'repeated');
      const request = signReissue(machine);
      if (!(await isReissued(server.url, request))) throw new Error('the machine itself got no credential');
      return isReissued(server.url, request);
    },
  },
  {
    name: 'lost credential: asks a server whose database was never restored',
    without: [
      {
        file: reissue,
        find: 'const restoration = await readNewestRestoration(tx);',
        replace: 'const restoration = { began_at: new Date(Date.parse(request.signed_at) - 1), ended_at: null };',
      },
    ],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'never-restored');
      await change(server, 'delete from restorations');
      return isReissued(server.url, signReissue(machine));
    },
  },
  {
    name: 'lost credential: asks a month after the restoration has ended',
    without: [
      {
        file: reissue,
        find: 'if (ended_at && now > secondsLater(ended_at, maxSecondsAfterRestoration)) return false;',
        replace: '',
      },
    ],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'long-restored');
      await change(server, "update restorations set ended_at = now() - interval '31 days'");
      return isReissued(server.url, signReissue(machine));
    },
  },
  {
    name: 'lost credential: asks for a machine that registered after the restore',
    without: [{ file: reissue, find: 'if (!registered_at || registered_at >= began_at) return false;', replace: '' }],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'registered-later');
      const registerNow = 'update instances set registered_at = now() where node_instance_id = $1';
      await change(server, registerNow, [machine.node_instance_id]);
      return isReissued(server.url, signReissue(machine));
    },
  },
  {
    name: 'lost credential: replays a signature from before the restore',
    without: [{ file: reissue, find: 'if (signed_at <= restoration.began_at) return false;', replace: '' }],
    async succeeds(server) {
      const machine = await startLostMachine(server, 'restored-again');
      const request = signReissue(machine);
      await change(server, 'update restorations set began_at = now()');
      return isReissued(server.url, request);
    },
  },
  {
    name: 'lost credential: asks with the key from a copied disk while the machine sends heartbeats',
    without: [
      {
        file: reissue,
        find: 'if ([instance.credential_used_at, last_seen_at].some((at) => at !== null && at >= began_at)) return false;',
        replace: '',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'alive');
      const { credential } = machine;
      await loseCredential(server.database_url, machine);
      const copy = { ...machine };
      machine.credential = credential;
      await machine.beat();
      await until('the heartbeat to be stored', async () => {
        const { rowCount } = await change(
          server,
          `select
           from heartbeats
           where node_instance_id = $1
             and last_seen_at >= (select began_at from restorations)`,
          [machine.node_instance_id],
        );
        return rowCount === 1;
      });
      return isReissued(server.url, signReissue(copy));
    },
  },
  {
    name: 'lost credential: asks for an instance that was replaced',
    without: [
      { file: reissue, find: '|| node.node_instance_id !== instance.node_instance_id', replace: '' },
      { file: reissue, find: 'if (fenced_at || revoked_at ||', replace: 'if (' },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'replaced');
      await machine.beat('stopping');
      const params = { id: machine.node_id, action: 're-enroll' as const };
      const { enrollment_token = '' } = await server.client.call('node-act', { params, body: { reason: 'test' } });
      await startMachine(server.url, { enrollment_token });
      await loseCredential(server.database_url, machine);
      return isReissued(server.url, signReissue(machine));
    },
  },
  {
    name: 'lost credential: asks with a key that it registered with a copied credential',
    without: [
      {
        file: 'src/store/agents/agent-keys/trusted-key.ts',
        find: 'standing.key_unproven_since === null ? standing.agent_public_key : standing.trusted_public_key;',
        replace: 'standing.agent_public_key;',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'doubted');
      const { allocation } = await server.client.call('allocation-create', { body: { pool: 'doubted' } });
      const params = { id: allocation.allocation_id };
      await machine.work(async () => (await server.client.call('allocation-get', { params })).status === 'active');
      const private_key = newKeyPair();
      const body = { version: 'test', agent_public_key: publicKeyOf(private_key) };
      await machine.call('agent-register', { body });
      await loseCredential(server.database_url, machine);
      return isReissued(server.url, signReissue({ ...machine, private_key }));
    },
  },
];
