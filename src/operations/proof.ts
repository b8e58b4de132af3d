/** Proof that a machine is clean, gone or cut off; asked for with a fresh nonce, checked, and kept as evidence. */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { now } from '../base/clock.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import type { DriverProof, ProofKind } from '../drivers/driver.ts';
import { type Json, type OperationContext, type RetryPolicy, StepError, StepFailed } from '../engine/engine.ts';
import { recordEvidence } from '../store/evidence.ts';
import { type AgentAnswer, type AgentLine, askAgent } from './agent-task.ts';
import type { OperationServices } from './services.ts';
import type { Subject } from './subject.ts';

const agentProvesWithinSeconds = 60;
const newNonce = () => randomBytes(16).toString('hex');

const keep = (
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
  proof: DriverProof,
  by: 'driver' | 'agent',
  at: Date,
) =>
  recordEvidence(services.db, [
    {
      at,
      layer: by === 'agent' ? 'node' : 'provider',
      kind: `proof.${proof.kind}`,
      summary: proof.checked.map((each) => `${each.what}: ${each.seen}`).join('; '),
      data: { ...proof, by },
      ...subject.ids,
      workflow_id: context.workflow_id,
    },
  ]);

/** The driver looked. */
export async function proveByDriver(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  kind: ProofKind,
  policy: RetryPolicy,
): Promise<void> {
  await context.step(
    `${name}:${kind}`,
    async () => {
      const nonce = newNonce();
      const answer = await subject.driver.prove(subject.target, { kind, nonce });
      if (answer.outcome === 'failed') throw new StepError(answer);
      if (answer.outcome === 'wait')
        throw new StepError({
          code: 'proof_pending',
          owner_layer: 'provider',
          message: answer.message,
          retryable: true,
        });
      if (answer.proof.nonce !== nonce)
        throw new StepError({
          code: 'proof_stale',
          owner_layer: 'provider',
          message: 'the proof does not answer what was asked',
          retryable: true,
        });
      await keep(context, services, subject, answer.proof, 'driver', now(services.clock));
      return null;
    },
    policy,
  );
}

function isSignedByAgent(subject: Subject, answer: AgentAnswer): boolean {
  if (!subject.instance.agent_public_key || !answer.signature) return false;
  const key = createPublicKey({
    key: Buffer.from(subject.instance.agent_public_key, 'base64'),
    format: 'der',
    type: 'spki',
  });
  const said = canonicalJson({
    task_id: answer.task_id,
    node_instance_id: subject.node_instance_id,
    status: answer.status,
    result: answer.result,
  });
  return verify(null, Buffer.from(said), key, Buffer.from(answer.signature, 'base64'));
}

/** The agent cleaned up and says so, signed and bound to our nonce. Undefined when the agent is silent. */
export async function proveByAgent(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  line: AgentLine,
): Promise<{ proven: boolean; problem?: StepFailed }> {
  const answer = await askAgent(context, services, name, subject, line, {
    type: 'release.clean',
    params: () => ({ nonce: newNonce() }),
    wait_seconds: agentProvesWithinSeconds,
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
  await context.step(`${name}:kept`, async () => {
    if (!isSignedByAgent(subject, answer)) {
      throw new StepError({
        code: 'proof_unsigned',
        owner_layer: 'node',
        message: "the agent's statement is not signed by its key",
        retryable: false,
      });
    }
    if (answer.result?.nonce !== nonce)
      throw new StepError({
        code: 'proof_stale',
        owner_layer: 'node',
        message: 'the statement does not answer what was asked',
        retryable: false,
      });
    const checked = Array.isArray(answer.result.checked)
      ? (answer.result.checked as DriverProof['checked'])
      : [{ what: 'clean-up', seen: 'done' }];
    await keep(context, services, subject, { kind: 'clean', nonce, checked }, 'agent', now(services.clock));
    return null as Json;
  });
  return { proven: true };
}
