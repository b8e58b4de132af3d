/** Proof that a machine is clean, gone or cut off; asked for with a fresh nonce, checked, and kept as evidence. */

import { randomBytes } from 'node:crypto';
import { type Clock, now } from '../../base/clock.ts';
import { fingerprintOf, isSignedWith } from '../../base/credentials/ed25519.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { DriverProof, DriverWait, ProofKind } from '../../drivers/driver.ts';
import { type Json, type OperationContext, type RetryPolicy, StepError, StepFailed } from '../../engine/engine.ts';
import { keyStanding } from '../../store/agents/agent-keys/key-change.ts';
import { type KeyStanding, trustedKeyOf } from '../../store/agents/agent-keys/trusted-key.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { lastStoredSeq } from '../../store/logs/node-logs.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import { type AgentAnswer, type AgentContact, askAgent } from '../runtime/agent-task.ts';
import { withTimeout } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';

export const agentProvesWithinSeconds = 60;
const newNonce = () => randomBytes(16).toString('hex');

/** What was looked at and what was seen, in one line. */
export const proofSummary = ({ checked }: DriverProof): string =>
  checked.map((each) => `${each.what}: ${each.seen}`).join('; ');

const keep = (
  context: Pick<OperationContext, 'workflow_id'>,
  services: Pick<OperationServices, 'db'>,
  subject: Pick<Subject, 'ids'>,
  proof: DriverProof,
  by: 'driver' | 'agent',
  at: Date,
) =>
  recordEvidence(services.db, [
    {
      at,
      layer: by === 'agent' ? 'node' : 'provider',
      kind: `proof.${proof.kind}`,
      summary: proofSummary(proof),
      data: { ...proof, by },
      ...subject.ids,
      workflow_id: context.workflow_id,
    },
  ]);

const driverAnswersWithinSeconds = 30;

/** What a look has come to: a proof, or in words why there is none. */
export type ProofResult = { proof: DriverProof } | { proof: null; why_not: string };

/** Asks the driver once, within bounds. Whatever is no proof is an answer too: who asks here goes on without one. */
export async function lookForProof(
  clock: Clock,
  { driver, target }: Pick<Subject, 'driver' | 'target'>,
  within_seconds = driverAnswersWithinSeconds,
): Promise<ProofResult> {
  const nonce = newNonce();
  const no = (why_not: string): ProofResult => ({ proof: null, why_not });
  try {
    const asked = driver.prove(target, { kind: driver.final_proof, nonce });
    const answer = await withTimeout(clock, within_seconds, asked);
    if (!answer) return no(`the driver ${driver.name} did not answer within ${within_seconds} s`);
    if (answer.outcome !== 'done') return no(answer.message);
    return answer.proof.nonce === nonce ? { proof: answer.proof } : no('the proof does not answer what was asked');
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    return no(`the driver ${driver.name} failed: ${error instanceof Error ? error.message : error}`);
  }
}

/** The same as a recorded step; a proof is kept as evidence before anybody acts on it. */
export async function proveIfPossible(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Pick<Subject, 'driver' | 'target' | 'ids'>,
): Promise<ProofResult> {
  const looked = await context.step(name, async () => {
    const looked = await lookForProof(services.clock, subject);
    if (looked.proof) await keep(context, services, subject, looked.proof, 'driver', now(services.clock));
    return looked as unknown as Json;
  });
  return looked as unknown as ProofResult;
}

/** The driver looked. */
export async function proveByDriver(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Pick<Subject, 'driver' | 'target' | 'ids'>,
  kind: ProofKind,
  policy: RetryPolicy,
): Promise<DriverProof> {
  const ask = async (): Promise<{ proof: DriverProof } | DriverWait> => {
    const nonce = newNonce();
    const answer = await subject.driver.prove(subject.target, { kind, nonce });
    if (answer.outcome === 'failed') throw new StepError(answer);
    if (answer.outcome === 'wait') return answer;
    if (answer.proof.nonce !== nonce)
      throw new StepError({
        code: 'proof_stale',
        owner_layer: 'provider',
        message: 'the proof does not answer what was asked',
        retryable: true,
      });
    await keep(context, services, subject, answer.proof, 'driver', now(services.clock));
    return { proof: answer.proof };
  };
  // What cannot be looked at yet is waited for, as everywhere; only what was seen to be left is a try that failed.
  for (let round = 1; ; round++) {
    const step = round === 1 ? `${name}:${kind}` : `${name}:${kind}:${round}`;
    const asked = (await context.step(step, async () => (await ask()) as unknown as Json, policy)) as unknown;
    const answer = asked as Awaited<ReturnType<typeof ask>>;
    if ('proof' in answer) return answer.proof;
    await context.emit({ message: answer.message });
    await context.sleep(answer.retry_seconds);
  }
}

type Signed = Pick<AgentAnswer, 'task_id' | 'status' | 'result' | 'signature'>;

function isSignedWithKey(public_key: string | null, node_instance_id: NodeInstanceId, answer: Signed): boolean {
  const { task_id, status, result, signature } = answer;
  if (!public_key || !signature) return false;
  return isSignedWith(public_key, canonicalJson({ task_id, node_instance_id, status, result }), signature);
}

/** By the agent's key or by its last proven one; whether the key may be in doubt is for the caller to say. */
export const isSignedByAgent = (
  { node_instance_id, instance }: { node_instance_id: NodeInstanceId; instance: KeyStanding },
  answer: Signed,
): boolean =>
  [instance.agent_public_key, trustedKeyOf(instance)].some((key) => isSignedWithKey(key, node_instance_id, answer));

function refuseUnprovenKey(subject: Subject, standing: KeyStanding, answer: Signed): void {
  const { agent_public_key, key_unproven_since } = standing;
  if (isSignedWithKey(trustedKeyOf(standing), subject.node_instance_id, answer)) return;
  const fingerprint = fingerprintOf(agent_public_key ?? '');
  throw new StepError({
    code: 'proof_key_unproven',
    owner_layer: 'auth',
    message: `the agent's key changed at ${key_unproven_since?.toISOString()} to ${fingerprint} without a signature by the former key. Compare this fingerprint with the one on the machine. If they match, accept the key: slipway act ${subject.node.node_id} accept-key --fingerprint FINGERPRINT --reason "…"`,
    retryable: false,
  });
}

/** The agent cleaned up, for the next tenant where it is to be used again, and says so, signed and bound to our nonce. */
export async function proveByAgent(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  contact: AgentContact,
  { reuse, wait_seconds = agentProvesWithinSeconds }: { reuse: boolean; wait_seconds?: number },
): Promise<{ proven: boolean; proof?: DriverProof; problem?: StepFailed }> {
  const answer = await askAgent(context, services, name, subject, contact, {
    type: 'release.clean',
    params: () => ({ nonce: newNonce(), reuse }),
    wait_seconds,
  });
  if (!answer || answer.status === 'unanswered') return { proven: false };
  if (answer.status === 'failed') {
    const problem = new StepFailed({
      step: name,
      code: answer.error?.code ?? 'clean_failed',
      owner_layer: 'node',
      message: answer.error?.message ?? 'the agent could not clean up',
      tries: 1,
    });
    return { proven: false, problem };
  }
  const nonce = String(answer.params.nonce);
  const proof = await context.step(`${name}:kept`, async () => {
    // Read when the proof is there: the key may have been replaced, or accepted, since the operation began.
    const standing = (await keyStanding(services.db, subject.node_instance_id)) ?? subject.instance;
    if (!isSignedByAgent({ ...subject, instance: standing }, answer)) {
      throw new StepError({
        code: 'proof_unsigned',
        owner_layer: 'node',
        message: "the agent's statement is not signed by its key",
        retryable: false,
      });
    }
    // A machine that is taken down is proven by its driver; only one that stays depends on what its agent signed.
    if (reuse) refuseUnprovenKey(subject, standing, answer);
    if (answer.result?.nonce !== nonce)
      throw new StepError({
        code: 'proof_stale',
        owner_layer: 'node',
        message: 'the statement does not answer what was asked',
        retryable: false,
      });
    const { last_log_seq } = answer.result;
    // Lines belong to whoever holds the machine when they come: one that is still on its way would be the next tenant's.
    if (typeof last_log_seq === 'number' && (await lastStoredSeq(services.db, subject.node_instance_id)) < last_log_seq)
      throw new StepError({
        code: 'log_lines_missing',
        owner_layer: 'node',
        message: `the agent says that all lines of its tenant are told, up to number ${last_log_seq}; not all of them are here`,
        retryable: false,
      });
    const checked = Array.isArray(answer.result.checked)
      ? (answer.result.checked as DriverProof['checked'])
      : [{ what: 'clean-up', seen: 'done' }];
    const stated: DriverProof = { kind: 'clean', nonce, checked };
    await keep(context, services, subject, stated, 'agent', now(services.clock));
    return stated as unknown as Json;
  });
  return { proven: true, proof: proof as unknown as DriverProof };
}
