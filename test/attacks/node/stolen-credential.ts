/**
 * The attacker copied the bearer credential of a machine, but not its key. Unless noted otherwise,
 * credentials are valid for two seconds in these tests.
 */
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

async function startVictim({ client, url }: SpawnedServer, pool: string) {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  return startMachine(url, { join_token, name: 'victim' }, { rotates_credential: true });
}

/** In these tests credentials are valid for a day. */
export const oldCredentialAttacks: Attack[] = [
  {
    name: 'ageing: sends heartbeats with an old credential right after the server starts',
    without: [
      {
        file: 'src/api/http/credential-age.ts',
        find: 'clock.nowMs() > 1000 * expires_seconds,',
        replace: 'clock.nowMs() > 1000 * expires_seconds && clock.monotonicMs() > 600_000,',
      },
    ],
    async succeeds(server) {
      const machine = await startVictim(server, 'restarted');
      const tables = await openTables(server.database_url);
      await tables
        .query("update instances set credential_expires_at = now() - interval '1 day' where node_instance_id = $1", [
          machine.node_instance_id,
        ])
        .finally(() => tables.close());
      return (await machine.beat()).status === 200;
    },
  },
];

export const stolenCredentialAttacks: Attack[] = [
  {
    name: 'ageing: renews a stolen credential without the key',
    without: [
      {
        file: 'src/store/agents/credentials/rotate.ts',
        find: 'refuseUnsigned(instance, rotation);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const machine = await startVictim(server, 'renewed');
      return (await machine.call('agent-credential-rotate', { body: {} })).status === 200;
    },
  },
  {
    name: 'ageing: sends heartbeats with a stolen credential after its lifetime',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'if (!services.credential_age.isExpired(session.expires_seconds)) return;',
        replace: 'if (services) return;',
      },
    ],
    async succeeds(server) {
      const machine = await startVictim(server, 'outlived');
      const expiresMs = Date.parse(machine.credential_expires_at ?? '');
      const answer = await until('an answer after the expiry of the credential', async () => {
        const beat = await machine.beat();
        return Date.parse(beat.headers.get('date') ?? '') > expiresMs + 1000 ? beat : undefined;
      });
      return answer.status === 200;
    },
  },
  {
    name: 'ageing: registers again with a stolen credential after its lifetime',
    without: [
      {
        file: 'src/api/routes/agent.ts',
        find: "throw new ApiProblem('credential_expired');",
        replace: '{}',
      },
    ],
    async succeeds(server) {
      const machine = await startVictim(server, 'registered-late');
      const expiresMs = Date.parse(machine.credential_expires_at ?? '');
      const answer = await until('an answer after the expiry of the credential', async () => {
        const registration = await machine.call('agent-register', { body: { version: 'test' } });
        return Date.parse(registration.headers.get('date') ?? '') > expiresMs + 1000 ? registration : undefined;
      });
      return answer.status === 200;
    },
  },
];
