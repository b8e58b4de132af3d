/**
 * The attacker copied the task key before it was rotated. The server's keys overlap for one second.
 */
import { createPrivateKey } from 'node:crypto';
import { signatureOf } from '../../../src/agent/connection/keys.ts';
import { refusalOf } from '../../../src/agent/tasks/task-check.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import type { SignedTask, TaskKeysReply } from '../../../src/contract/agent/agent.ts';
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

export const shortOverlap = ['--task-key-overlap-seconds', '1'];

/** Reads the private key that signs tasks now. */
async function copyTaskKey({ database_url }: SpawnedServer): Promise<{ kid: string; private_key: string }> {
  const tables = await openTables(database_url);
  const [row] = await tables.query<{ kid: string; private_key: string }>(
    'select kid, private_key from signing_keys order by signs_from desc limit 1',
  );
  await tables.close();
  if (!row) throw new Error('the installation has no task key');
  const der = createPrivateKey(row.private_key).export({ type: 'pkcs8', format: 'der' });
  return { kid: row.kid, private_key: der.toString('base64') };
}

export const retiredTaskKeyAttacks: Attack[] = [
  {
    name: 'task keys: makes an agent run a task signed by a retired key',
    without: [
      {
        file: 'src/store/keys/task-keys/key-set.ts',
        find: '...(retired_at && { accepted_until: retired_at.toISOString() }),',
        replace: '',
      },
      {
        file: 'src/store/keys/task-keys/key-set.ts',
        find: 'rows.filter((row) => !isRetired(row, now_ms)).map(wireOf)',
        replace: 'rows.map(wireOf)',
      },
    ],
    async succeeds(server) {
      const { client, url } = server;
      const pool = 'retired-task-key';
      await client.call('pool-put', { params: { pool }, body: { driver: 'external' } });
      const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
      const machine = await startMachine(url, { join_token, name: 'victim' });
      const { kid, private_key } = await copyTaskKey(server);
      const rotation = await client.call('task-key-rotate', {});
      const taskKeys = async () => {
        const answer = await machine.call('agent-task-keys');
        if (answer.status !== 200) throw new Error(`the machine got no keys: ${answer.text}`);
        return (answer.body as unknown as TaskKeysReply).task_keys;
      };
      // The replica reloads the keys when it reads the fact `task_key.rotated`. An open transaction
      // in any database of the same PostgreSQL server delays that.
      const isAnnounced = async () => (await taskKeys()).some(({ kid }) => kid === rotation.kid);
      await until('the new key to be announced', isAnnounced, { seconds: 60 });
      const isRetired = () => systemClock.nowMs() > Date.parse(rotation.former_accepted_until);
      await until('the key to be retired', isRetired, { seconds: 30 });
      const keys = await taskKeys();
      const { node_id, node_instance_id } = machine;
      const now_ms = systemClock.nowMs();
      const task: Omit<SignedTask, 'signature'> = {
        task_id: 'task_forged',
        type: 'release.clean',
        params: {},
        node_id,
        node_instance_id,
        correlation_id: null,
        allocation_id: null,
        workflow_id: null,
        lease_seconds: 60,
        expires_at: moment(now_ms + 60_000).toISOString(),
        kid,
      };
      const forgedTask: SignedTask = { ...task, signature: signatureOf(private_key, task) };
      return refusalOf(forgedTask, { keys, node_id, node_instance_id, now_ms, supportsType: () => true }) === null;
    },
  },
];
