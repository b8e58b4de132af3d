/**
 * Asks a restored server, which does not know the credential, for a new one. The signature proves
 * that this is the machine of the restored rows. Every refusal is temporary: the command goes on.
 */
import { moment } from '../../base/clock.ts';
import { reissueBody } from '../../contract/agent/credential-reissue.ts';
import type { Log } from '../log.ts';
import { type StateFile, tokenDigest } from '../state/state-file.ts';
import { describeFailure } from './call-failure.ts';
import type { ControlPlane } from './control-plane.ts';
import { signatureOf } from './keys.ts';
import type { ServerTime } from './server-time.ts';

/** Asks once. Returns whether there is a new credential, which every call then uses. */
export async function reissueOnce(parts: {
  server: ControlPlane;
  state: StateFile;
  time: ServerTime;
  log: Log;
  signal: AbortSignal;
}): Promise<boolean> {
  const { server, state, time, log, signal } = parts;
  const { identity, private_key } = state.read();
  if (!identity) return false;
  const { node_instance_id, credential } = identity;
  const signed_at = moment(time.nowMs()).toISOString();
  const facts = { node_instance_id, credential_sha256: tokenDigest(credential), signed_at };
  const answer = await server.reissue({ ...facts, signature: signatureOf(private_key, reissueBody(facts)) }, signal);
  if (!answer.ok) {
    if (!signal.aborted) log.warn('no new credential was issued', { failure: describeFailure(answer.failure) });
    return false;
  }
  // If the machine joined again meanwhile, this credential may belong to a former instance.
  if (state.read().identity?.credential !== credential) return false;
  state.update({ identity: { ...identity, ...answer.body } });
  log.info('the server issued a new credential, because the machine has its key');
  return true;
}
