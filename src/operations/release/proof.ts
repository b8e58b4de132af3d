/**
 * Obtains proofs that a machine is clean, that it is gone, or that its credential is revoked.
 * Checks nonce and signature, and records proofs as evidence.
 */
import { randomBytes } from 'node:crypto';
import { type Clock, now } from '../../base/clock.ts';
import { fingerprintOf, isSignedWith } from '../../base/credentials/ed25519.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { DriverProof, DriverWait, ProofKind } from '../../drivers/driver.ts';
import { type Json, type OperationContext, type RetryPolicy, StepError, StepFailed } from '../../engine/engine.ts';
import { readKeyStanding } from '../../store/agents/agent-keys/key-change.ts';
import { type KeyStanding, trustedKeyOf } from '../../store/agents/agent-keys/trusted-key.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { readLastStoredSeq } from '../../store/logs/node-logs.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import { type AgentAnswer, type AgentContact, askAgent } from '../runtime/agent-task.ts';
import { withTimeout } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import { errorChange } from '../runtime/stage.ts';
import type { Subject } from '../runtime/subject.ts';

export const agentProvesWithinSeconds = 60;
const newNonce = () => randomBytes(16).toString('hex');

/** Renders the checks and their results in one line. */
export const proofSummary = ({ checked }: DriverProof): string =>
  checked.map((each) => `${each.what}: ${each.seen}`).join('; ');

const recordProof = (
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

const driverTimeoutSeconds = 30;

/** A proof, or the reason why there is none. */
export type ProofResult = { proof: DriverProof } | { proof: null; why_not: string };

/**
 * Asks the driver once, with a timeout. An error becomes a result, unless the store is unavailable.
 */
export async function lookForProof(
  clock: Clock,
  { driver, target }: Pick<Subject, 'driver' | 'target'>,
  within_seconds = driverTimeoutSeconds,
): Promise<ProofResult> {
  const nonce = newNonce();
  const unproven = (why_not: string): ProofResult => ({ proof: null, why_not });
  try {
    const call = driver.prove(target, { kind: driver.final_proof, nonce });
    const answer = await withTimeout(clock, within_seconds, call);
    if (!answer) return unproven(`the driver ${driver.name} did not answer within ${within_seconds} s`);
    if (answer.outcome !== 'done') return unproven(answer.message);
    return answer.proof.nonce === nonce ? { proof: answer.proof } : unproven('the proof has another nonce');
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    return unproven(`the driver ${driver.name} failed: ${error instanceof Error ? error.message : error}`);
  }
}

/** Asks the driver once in a recorded step, and records a proof before it is used. */
export async function proveIfPossible(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Pick<Subject, 'driver' | 'target' | 'ids'>,
): Promise<ProofResult> {
  const result = await context.step(name, async () => {
    const result = await lookForProof(services.clock, subject);
    if (result.proof) await recordProof(context, services, subject, result.proof, 'driver', now(services.clock));
    return result as unknown as Json;
  });
  return result as unknown as ProofResult;
}

/** Asks the driver until it returns a proof, or the tries of the policy are used up. */
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
        message: 'the proof has another nonce',
        retryable: true,
      });
    await recordProof(context, services, subject, answer.proof, 'driver', now(services.clock));
    return { proof: answer.proof };
  };
  // A driver that answers `wait` is asked again without limit. Only failures use tries.
  for (let round = 1; ; round++) {
    const step = round === 1 ? `${name}:${kind}` : `${name}:${kind}:${round}`;
    const recorded = (await context.step(step, async () => (await ask()) as unknown as Json, policy)) as unknown;
    const answer = recorded as Awaited<ReturnType<typeof ask>>;
    if ('proof' in answer) return answer.proof;
    await context.emit({ message: answer.message, ...errorChange(answer) } as unknown as Json);
    await context.sleep(answer.retry_seconds);
  }
}

type SignedAnswer = Pick<AgentAnswer, 'task_id' | 'status' | 'result' | 'signature'>;

function isSignedWithKey(public_key: string | null, node_instance_id: NodeInstanceId, answer: SignedAnswer): boolean {
  const { task_id, status, result, signature } = answer;
  if (!public_key || !signature) return false;
  return isSignedWith(public_key, canonicalJson({ task_id, node_instance_id, status, result }), signature);
}

/**
 * Accepts a signature by the agent's current key or by its last proven one. The caller decides
 * whether an unproven current key is enough.
 */
export const isSignedByAgent = (
  { node_instance_id, instance }: { node_instance_id: NodeInstanceId; instance: KeyStanding },
  answer: SignedAnswer,
): boolean =>
  [instance.agent_public_key, trustedKeyOf(instance)].some((key) => isSignedWithKey(key, node_instance_id, answer));

function refuseUnprovenKey(subject: Subject, standing: KeyStanding, answer: SignedAnswer): void {
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

/** Asks the agent to clean the machine and to sign a statement with our nonce. */
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
    // Read the keys again, because the key may have been replaced or accepted meanwhile.
    const standing = (await readKeyStanding(services.db, subject.node_instance_id)) ?? subject.instance;
    if (!isSignedByAgent({ ...subject, instance: standing }, answer)) {
      throw new StepError({
        code: 'proof_unsigned',
        owner_layer: 'node',
        message: "the agent's statement is not signed by its key",
        retryable: false,
      });
    }
    // For a teardown the driver gives the proof. Reuse depends on the agent's signature alone.
    if (reuse) refuseUnprovenKey(subject, standing, answer);
    if (answer.result?.nonce !== nonce)
      throw new StepError({
        code: 'proof_stale',
        owner_layer: 'node',
        message: 'the statement has another nonce',
        retryable: false,
      });
    const { last_log_seq } = answer.result;
    // A log line belongs to the tenant at its arrival, so a late line would go to the next tenant.
    if (
      typeof last_log_seq === 'number' &&
      (await readLastStoredSeq(services.db, subject.node_instance_id)) < last_log_seq
    )
      throw new StepError({
        code: 'log_lines_missing',
        owner_layer: 'node',
        message: `the agent reports log lines up to number ${last_log_seq}, and not all of them are stored`,
        retryable: false,
      });
    const checked = Array.isArray(answer.result.checked)
      ? (answer.result.checked as DriverProof['checked'])
      : [{ what: 'clean-up', seen: 'done' }];
    const statement: DriverProof = { kind: 'clean', nonce, checked };
    await recordProof(context, services, subject, statement, 'agent', now(services.clock));
    return statement as unknown as Json;
  });
  return { proven: true, proof: proof as unknown as DriverProof };
}
