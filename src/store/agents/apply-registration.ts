/**
 * The steps that all ways to register share: move the node (start it, or rescue a failed one),
 * issue a credential, reply.
 */
import { secondsBetween } from '../../base/clock.ts';
import { hashSecret, newSecret } from '../../base/credentials/random-secret.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import { heartbeatPolicy } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type KnownDocument, readGenerationDocument } from '../rows/pools.ts';
import { amendNode } from '../transitions/amend-node.ts';
import type { NodeMove } from '../transitions/node-move.ts';
import { transition } from '../transitions/node-transition.ts';
import type { KeyStanding } from './agent-keys/trusted-key.ts';
import type { InstanceRow } from './instances.ts';
import type { Registration, RegistrationContext } from './registration-types.ts';

type ArrivedInstance = Pick<InstanceRow, 'node_instance_id' | 'created_at'>;
type MoveContext = Pick<RegistrationContext, 'now' | 'correlation_id'>;

/** Builds the move to `starting` of a node whose machine registers in time. */
export const startMove = (
  node: NodeRow,
  { node_instance_id, created_at }: ArrivedInstance,
  { version, base_url }: RegisterRequest,
  { now, correlation_id }: MoveContext,
) =>
  ({
    node_id: node.node_id,
    node_instance_id,
    to: 'starting',
    by: 'registration',
    reason: `registered with agent ${version}`,
    set: {
      registered_at: node.registered_at ?? now,
      reported_status: 'starting',
      ...(base_url && { endpoint: base_url }),
      // The agent checks its prerequisites again. If one is still missing, the node fails again.
      ...(node.prerequisites === 'missing' && { prerequisites: 'unchecked' as const }),
    },
    data: { version, boot_seconds: secondsBetween(node.clock_from ?? created_at, now) },
    correlation_id: node.correlation_id ?? correlation_id,
  }) satisfies NodeMove;

/** Builds the move of a failed node whose machine registers within the rescue window. */
function rescueMove(
  node: NodeRow,
  instance: ArrivedInstance,
  request: RegisterRequest,
  context: MoveContext,
): NodeMove {
  const lateness_seconds = secondsBetween(node.status_since, context.now);
  const start = startMove(node, instance, request, context);
  return {
    ...start,
    by: 'late-registration',
    reason: `registered ${lateness_seconds.toFixed(1)} s after it failed`,
    data: { ...start.data, lateness_seconds },
  };
}

/** Counts the restart of an agent that has registered before; its node keeps its status. */
function countRestart(
  tx: Transaction,
  node: NodeRow,
  { version, base_url }: RegisterRequest,
  { now, correlation_id }: RegistrationContext,
): Promise<NodeRow> {
  const restarts = node.restarts + 1;
  return amendNode(
    tx,
    node,
    // The agent may listen at another address after its restart.
    { restarts, ...(base_url && { endpoint: base_url }) },
    {
      at: now,
      layer: 'node',
      kind: 'node.restarted',
      summary: `agent ${version} registered again (restart ${restarts})`,
      data: { version },
      correlation_id: node.correlation_id ?? correlation_id,
    },
  );
}

/**
 * Changes the node as its status demands: starts it, rescues it, or counts a restart. Throws if the
 * registration is refused. The caller holds the row locks on the node and the instance.
 */
export async function applyRegistration(
  tx: Transaction,
  node: NodeRow,
  instance: InstanceRow,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<NodeRow> {
  const { now, environment } = context;
  if (instance.fenced_at || node.node_instance_id !== instance.node_instance_id)
    throw fencedProblem(instance.fence_reason);
  const effect = environment.decide.effectOfRegistration(node, now);
  const isFirst = !instance.registered_at;
  if (effect === 'fenced' && node.status === 'failed') throw fencedProblem('the rescue window has ended');
  if (effect === 'fenced' || (effect === 'return' && isFirst)) throw fencedProblem(`the node is ${node.status}`);
  if (effect === 'barred')
    throw new ApiProblem('node_fenced', 'The node is quarantined; an operator can reactivate it.');
  if (effect === 'count' || effect === 'return') return isFirst ? node : countRestart(tx, node, request, context);
  const moveOf = effect === 'rescue' ? rescueMove : startMove;
  const [outcome] = await transition(tx, [moveOf(node, instance, request, context)], now, environment);
  if (!outcome?.moved)
    throw new Error(`registration of ${node.node_id} was refused by its transition: ${outcome?.because}`);
  return outcome.node;
}

/** Replaces the instance's credential and stores the details of its registration. */
export async function issueCredential(
  tx: Transaction,
  instance: NodeInstanceId,
  request: RegisterRequest,
  key: KeyStanding,
  { now, credential_expires_at }: Pick<RegistrationContext, 'now' | 'credential_expires_at'>,
): Promise<string> {
  const credential = newSecret('swc');
  await tx.query(
    `update instances
     set credential_hash = $2,
       credential_used_at = null,
       credential_expires_at = $8,
       next_credential_hash = null,
       next_credential_expires_at = null,
       agent_public_key = $3,
       key_unproven_since = $7,
       trusted_public_key = $9,
       agent_version = $4,
       base_url = $5,
       registered_at = coalesce(registered_at, $6),
       registrations = registrations + 1
     where node_instance_id = $1`,
    [
      instance,
      hashSecret(credential),
      key.agent_public_key,
      request.version,
      request.base_url ?? null,
      now,
      key.key_unproven_since,
      credential_expires_at ?? null,
      key.trusted_public_key,
    ],
  );
  return credential;
}

export const replyOf = (
  node: NodeRow,
  pool: KnownDocument | undefined,
  node_instance_id: NodeInstanceId,
  credential: string | undefined,
  credential_expires_at: Date | null,
): Registration => ({
  node_id: node.node_id,
  node_instance_id,
  ...(credential && { credential }),
  credential_expires_at,
  deadline_at: node.deadline_at,
  heartbeat_interval_seconds: heartbeatPolicy(pool?.heartbeat).interval_seconds,
  requires: pool?.requires ?? [],
  first: credential !== undefined,
});

/** Builds the reply from the pool generation of the node, which may not be the newest. */
export const readReply = async (
  tx: Transaction,
  node: NodeRow,
  instance: NodeInstanceId,
  credential: string | undefined,
  credential_expires_at: Date | null,
): Promise<Registration> =>
  replyOf(
    node,
    await readGenerationDocument(tx, node.pool, node.pool_generation),
    instance,
    credential,
    credential_expires_at,
  );
