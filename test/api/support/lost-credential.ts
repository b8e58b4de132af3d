/** A machine whose credential is newer than the backup that its server was restored from. */
import { createHash, randomUUID } from 'node:crypto';
import { signatureOf } from '../../../src/agent/connection/keys.ts';
import { now, systemClock } from '../../../src/base/clock.ts';
import type { CredentialReissue } from '../../../src/contract/agent/agent.ts';
import { reissueBody } from '../../../src/contract/agent/credential-reissue.ts';
import { withClient } from '../../support/database.ts';
import { type Answer, callRoute, type SendOptions } from './calls.ts';
import type { Machine } from './machine.ts';

/**
 * Makes the database look as if the machine had registered an hour ago, and the database had just
 * been restored. The machine has rotated its credential since the backup.
 */
export async function loseCredential(database_url: string, machine: Machine): Promise<void> {
  await withClient(database_url, async (client) => {
    await client.query('delete from restorations');
    await client.query(
      `insert into restorations (sign, began_at, ended_at, end_reason)
       values (
         'backup_loaded', date_trunc('milliseconds', clock_timestamp()) - interval '1 ms', clock_timestamp(),
         'compared')`,
    );
    await client.query(
      `update instances
       set registered_at = registered_at - interval '1 hour'
       where node_instance_id = $1`,
      [machine.node_instance_id],
    );
  });
  machine.credential = `swc_${randomUUID()}`;
}

type Holder = Pick<Machine, 'node_instance_id' | 'credential' | 'private_key'>;

export function signReissue(holder: Holder, signed_at = now(systemClock).toISOString()): CredentialReissue {
  const { node_instance_id, credential, private_key } = holder;
  const credential_sha256 = createHash('sha256').update(credential).digest('hex');
  const facts = { node_instance_id, credential_sha256, signed_at };
  return { ...facts, signature: signatureOf(private_key, reissueBody(facts)) };
}

export const sendReissue = (url: string, body: CredentialReissue, options: SendOptions = {}): Promise<Answer> =>
  callRoute(url, 'agent-credential-reissue', { body }, options);

/** Returns whether the server issued a credential. */
export async function isReissued(url: string, body: CredentialReissue, options?: SendOptions): Promise<boolean> {
  const { status, body: reply, text } = await sendReissue(url, body, options);
  if (status !== 200 && reply.code !== 'reissue_refused') throw new Error(`unexpected answer: ${status} ${text}`);
  return status === 200;
}
