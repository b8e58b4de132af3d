/**
 * The launch stage: resolves the pool's secrets, calls the driver, and starts or pauses the boot
 * budget. Decrypted secrets go to the driver and the redactor, never into the database.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { ownerLayers } from '../../contract/errors/problem.ts';
import { isSecretReference, secretsIn } from '../../contract/pool-fields/references.ts';
import type { DriverDone, DriverFailure, DriverOutcome } from '../../drivers/driver.ts';
import type { OperationContext, RetryPolicy } from '../../engine/engine.ts';
import { StepFailed } from '../../engine/engine.ts';
import { isFenced } from '../../lifecycle/model/states.ts';
import { registerAgentless } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { unguessableForms } from '../../store/rows/secrets/known-values.ts';
import { openSecret } from '../../store/rows/secrets/seal.ts';
import { readSecrets, recordSecretUse } from '../../store/rows/secrets/secrets.ts';
import { noteAdvance, recordSigns } from '../../store/transitions/advance.ts';
import { moveDeadlines } from '../../store/transitions/deadlines.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import { drive } from '../runtime/stage.ts';
import { isAgentless, readOperationSubject, type Subject } from '../runtime/subject.ts';

const failure = (code: string, message: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'operator',
  code,
  message,
  retryable: false,
});

type LaunchSpec = { outcome: 'ready'; spec: unknown; secret_env: string[] } | DriverFailure;

type Env = Record<string, unknown>;

async function launchSpec(services: OperationServices, spec: unknown): Promise<LaunchSpec> {
  const names = secretsIn(spec);
  if (names.length === 0) return { outcome: 'ready', spec, secret_env: [] };
  const rows = new Map((await readSecrets(services.db, names)).map((row) => [row.name, row]));
  const values = new Map<string, string>();
  for (const name of names) {
    const row = rows.get(name);
    if (!row)
      return failure(
        'secret_missing',
        `the pool names the secret ${name}, which is not stored: slipway secrets set ${name}`,
      );
    const opened = openSecret(services.key_ring, row);
    if (!opened.ok)
      return opened.why === 'key_missing'
        ? failure(
            'secret_key_missing',
            `the secret ${name} is encrypted with the key ${row.kid}, which ${services.key_ring.path} does not hold: copy the key file of the server that stored it there`,
          )
        : failure(
            'secret_damaged',
            `the secret ${name} cannot be decrypted; set it again: slipway secrets set ${name}`,
          );
    values.set(name, opened.value);
  }
  // Redact the values before the machine or its provider can print them.
  services.db.redact.learn([...values.values()].flatMap(unguessableForms));
  await recordSecretUse(services.db, names, now(services.clock));
  const { env, ...rest } = spec as { env: Env };
  const resolved = Object.entries(env).map(([variable, value]) => [
    variable,
    isSecretReference(value) ? values.get(value.secret) : value,
  ]);
  return {
    outcome: 'ready',
    spec: { ...rest, env: Object.fromEntries(resolved) },
    secret_env: Object.keys(env).filter((variable) => isSecretReference(env[variable])),
  };
}

/**
 * Waiting for the provider's capacity is queueing, not booting. The node then gets the deadline of
 * the queue, and its boot budget starts when capacity is granted. Idempotent.
 */
async function updateBootClock(services: OperationServices, subject: Subject, answer: DriverOutcome): Promise<void> {
  const isWaiting = answer.outcome === 'wait' && answer.waits_for === 'capacity';
  const signs =
    answer.outcome === 'failed'
      ? []
      : (answer.parts ?? []).map(({ name, state }) => ({ kind: 'part' as const, code: `${name}: ${state}` }));
  if (!isWaiting && subject.node.waiting_for === null && signs.length === 0) return;
  const at = now(services.clock);
  const { environment } = services;
  await services.db.transaction(async (tx) => {
    const node = await lockNode(tx, subject.node.node_id);
    if (node?.status !== 'provisioning' || node.node_instance_id !== subject.node_instance_id) return;
    if (isWaiting === (node.waiting_for === 'capacity')) {
      if (!isWaiting) await noteAdvance(tx, node, signs, at, environment);
      return;
    }
    const phase = isWaiting ? 'queue' : 'provision';
    const budget = budgetOf(phase, subject.pool, environment, node.requested_provision_seconds).seconds;
    const seconds = isWaiting ? budget : (node.budget_seconds ?? budget);
    const set = isWaiting ? { waiting_for: 'capacity' } : { waiting_for: null, clock_from: at };
    const reason = isWaiting
      ? 'the provider has no capacity now; the boot budget starts when it has'
      : 'the provider granted capacity; the boot budget starts';
    const deadline_at = secondsLater(at, seconds);
    await moveDeadlines(tx, [{ node, deadline_at, set, reason }], { layer: 'provider' }, at);
    // Mark the states that the provider showed during queueing, so that they do not count as
    // advances of the boot later.
    if (signs.length > 0) await recordSigns(tx, subject.node_instance_id, signs, at);
  });
}

export const launchPolicy: RetryPolicy = { tries: 3, base_seconds: 1, max_seconds: 15 };

/**
 * Thrown when the step itself found that the machine ended. A plain `StepFailed` may also be the
 * result of a rule's decision.
 */
export class MachineEnded extends StepFailed {}

/** The failure of a launch, if a rule or a person has failed the node meanwhile. */
const nodeFailedMeanwhile = ({ node }: Subject): DriverFailure => ({
  outcome: 'failed',
  owner_layer: ownerLayers.find((each) => each === node.verdict?.owner) ?? 'node',
  code: node.verdict?.rule ?? 'node_failed',
  message: node.verdict?.reason ?? `the node is ${node.status}`,
  retryable: false,
});

export async function launch(context: OperationContext, services: OperationServices): Promise<void> {
  const subject = await readOperationSubject(services, context);
  const ensure = async () => {
    const current = await readOperationSubject(services, context);
    if (isFenced(current.node.status)) return nodeFailedMeanwhile(current);
    const resolved = await launchSpec(services, current.target.spec);
    if (resolved.outcome === 'failed') return resolved;
    const answer = await current.driver.ensure({
      ...current.target,
      spec: resolved.spec,
      bootstrap: {
        server_url: services.server_url(),
        ca: services.public_ca,
        other_server_urls: await services.other_server_urls(),
        otlp_endpoint: services.otlp_endpoint ?? null,
        enrollment_token: services.installation.signEnrollmentToken(current.target),
        deadline_at: (current.node.deadline_at ?? now(services.clock)).toISOString(),
        requires: current.pool.requires ?? [],
        secret_env: resolved.secret_env,
      },
    });
    await updateBootClock(services, current, answer);
    return answer;
  };
  const shouldStop = async () => isFenced((await readOperationSubject(services, context)).node.status);
  const options = { policy: launchPolicy, subject, shouldStop };
  const done = await drive(context, services, 'launch:ensure', ensure, options).catch((failure: unknown) => {
    // Without an agent there is no late registration, so the provider's refusal is final.
    throw failure instanceof StepFailed && isAgentless(subject) ? new MachineEnded(failure) : failure;
  });
  if (isAgentless(subject)) await recordEnsured(context, services, subject, done);
}

/** Moves an agentless machine that the provider finished to `starting`. */
async function recordEnsured(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
  { message, endpoint }: DriverDone,
): Promise<void> {
  await context.step('launch:ensured', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'ensured', services.executor, at, async (tx) => {
      const move: NodeMove = {
        ...subject.ids,
        node_id: subject.node.node_id,
        node_instance_id: subject.node_instance_id,
        from: ['provisioning'],
        to: 'starting',
        by: 'ensured',
        reason: message,
        set: { registered_at: at, reported_status: 'starting', ...(endpoint && { endpoint }) },
      };
      const [outcome] = await transition(tx, [move], at, services.environment);
      if (outcome?.moved) await registerAgentless(tx, subject.node_instance_id, at);
      return null;
    });
  });
}
