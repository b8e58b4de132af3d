/** Registers an instance by enrolment token, join token, key proof, or the credential it has. */
import { secondsLater } from '../../base/clock.ts';
import { hashSecret } from '../../base/credentials/random-secret.ts';
import { creationTimeOf, type NodeInstanceId, newNodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem, errorCatalogue } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { EnrollmentIds } from '../keys/installation.ts';
import { type Database, type Transaction, withWriteAccount } from '../pg/database.ts';
import { lockNode, type NodeRow, nodeRow } from '../rows/nodes.ts';
import { currentPool } from '../rows/pools.ts';
import { findJoinTokenBySecret, type JoinTokenRow } from '../rows/tokens.ts';
import { moveAllocations } from '../transitions/allocation-transition.ts';
import { amendNode } from '../transitions/amend-node.ts';
import { transition } from '../transitions/node-transition.ts';
import { budgetOf, requireMoved } from '../transitions/transition-rules.ts';
import { changeKey, restoreKey } from './agent-keys/key-change.ts';
import { provenKey, trustedKeyOf } from './agent-keys/trusted-key.ts';
import { applyRegistration, issueCredential, readReply } from './apply-registration.ts';
import { createInstance, fenceInstance, type InstanceRow, instanceRow } from './instances.ts';
import { admitNewcomers, type JoinRequest, joinInBatch } from './join-newcomers.ts';
import { addEarlierToken, storeArrival } from './joins/client-arrival.ts';
import { closeContests, NameContested, recordContest } from './joins/contested-names.ts';
import { checkKeyProof, type KeyProofResult } from './joins/key-proof.ts';
import { isNameHeld, requireUnchangedName, spendUnlessKnown, unprovenProblem } from './joins/known-names.ts';
import { findJoinsBeyondLimit, poolFullProblem } from './joins/pool-limit.ts';
import { isSpent, requireValidToken, spentProblem } from './joins/token-validity.ts';
import type { Registration, RegistrationContext } from './registration-types.ts';

/**
 * Computes the deadline from the pool and from the time in the instance's id, because the instance
 * has no row yet.
 */
async function pendingProblem(tx: Transaction, ids: EnrollmentIds, context: RegistrationContext): Promise<ApiProblem> {
  const pool = await currentPool(tx, ids.pool);
  const budget = budgetOf('provision', pool?.document ?? { driver: '' }, context.environment, null);
  const deadline = secondsLater(creationTimeOf(ids.node_instance_id) ?? context.now, budget.seconds);
  return new ApiProblem('enrollment_pending', { retry_after_seconds: 1, deadline_at: deadline.toISOString() });
}

async function registerWithEnrollmentToken(
  tx: Transaction,
  token: string,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const ids = context.installation.readEnrollmentToken(token);
  if (!ids) throw new ApiProblem('enrollment_invalid', 'The signature of the enrolment token does not match.');
  const node = await lockNode(tx, ids.node_id);
  const instance = node && (await instanceRow(tx, ids.node_instance_id, 'for update'));
  if (!node || !instance) throw await pendingProblem(tx, ids, context);
  if (instance.fenced_at) throw fencedProblem(instance.fence_reason);
  if (!instance.enrollment_token_hash?.equals(hashSecret(token)))
    throw new ApiProblem('enrollment_invalid', 'A newer enrolment token was issued.');
  if (instance.credential_used_at)
    throw new ApiProblem(
      'enrollment_invalid',
      'The credential issued for this token is already in use; register with the credential.',
    );
  const registered = await applyRegistration(tx, node, instance, request, context);
  const { node_id, node_instance_id } = instance;
  const keyChange = { ...context, node_id, node_instance_id, former: instance, via: 'enrollment_token' } as const;
  const key = await changeKey(tx, request, keyChange);
  const credential = await issueCredential(tx, node_instance_id, request, key, context);
  return readReply(tx, registered, node_instance_id, credential, context.credential_expires_at ?? null);
}

/**
 * Moves the node of a returning machine to `provisioning`, together with the allocation that failed
 * with it. Otherwise the node would be free and could go to another tenant without a clean-up.
 */
async function reenrollNode(
  tx: Transaction,
  node: NodeRow,
  node_instance_id: NodeInstanceId,
  context: RegistrationContext,
) {
  const { now, environment, correlation_id } = context;
  const { node_id, status_since: failed_at } = node;
  const cause = { node_id, reason: 'the machine joined again', correlation_id };
  const set = { node_instance_id, registered_at: null };
  const [outcome] = await transition(tx, [{ ...cause, to: 'provisioning', by: 're-enroll', set }], now, environment);
  if (!outcome?.moved || outcome.from !== 'failed') return;
  const rescue = { ...cause, from: ['failed'], to: 'provisioning', by: 'rescue', failed_at } as const;
  const rescued = await moveAllocations(tx, [{ ...rescue, node: outcome.node }], now, environment);
  requireMoved(rescued, 'not_found', 'status_moved_on');
}

/** Registers a new instance of a known node and fences its former instance. */
async function registerNewInstance(
  tx: Transaction,
  existing: NodeRow,
  join: JoinTokenRow,
  request: JoinRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { now } = context;
  const { node_id } = existing;
  const node_instance_id = newNodeInstanceId(context.clock);
  const former = existing.node_instance_id ? await instanceRow(tx, existing.node_instance_id, 'for update') : undefined;
  if (existing.node_instance_id)
    await fenceInstance(
      tx,
      existing.node_instance_id,
      { reason: 'the machine joined again', revoke: true, correlation_id: context.correlation_id },
      now,
    );
  await createInstance(tx, { node_instance_id, node_id, join_token_id: join.token_id }, now);
  if (existing.status === 'provisioning')
    await amendNode(
      tx,
      existing,
      { node_instance_id },
      { at: now, layer: 'node', kind: 'node.joined', summary: 'the machine joined as a new instance' },
    );
  else await reenrollNode(tx, existing, node_instance_id, context);
  const node = await lockNode(tx, node_id);
  const instance = await instanceRow(tx, node_instance_id, 'for update');
  if (!node || !instance) throw new Error(`node ${node_id} is missing in the transaction that changed it`);
  const registered = await applyRegistration(tx, node, instance, request, context);
  const keyChange = { ...context, node_id, node_instance_id, former: former ?? instance, via: 'join_token' } as const;
  const key = await changeKey(tx, request, keyChange);
  const credential = await issueCredential(tx, node_instance_id, request, key, context);
  await storeArrival(tx, node_instance_id, context.arrival);
  return readReply(tx, registered, node_instance_id, credential, context.credential_expires_at ?? null);
}

/** Issues a new credential to an agent that lost its own and proves that it still has its key. */
async function registerWithKeyProof(
  tx: Transaction,
  existing: NodeRow,
  join: JoinTokenRow,
  request: JoinRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { now } = context;
  const instance = existing.node_instance_id && (await instanceRow(tx, existing.node_instance_id, 'for update'));
  const isAgent = instance && !instance.fenced_at && instance.door === null;
  const proof: KeyProofResult = isAgent ? checkKeyProof(request, instance, now) : { proven: false, because: 'missing' };
  if (!isAgent || !proof.proven) {
    if (isSpent(join)) throw spentProblem(join);
    throw unprovenProblem(existing, join, request, instance || undefined, proof);
  }
  const registered = await applyRegistration(tx, existing, instance, request, context);
  const { node_instance_id } = instance;
  await restoreKey(tx, instance, { ...context, via: 'key_proof' });
  const credential = await issueCredential(tx, node_instance_id, request, provenKey(trustedKeyOf(instance)), context);
  await tx.query(
    `update instances
     set next_credential_hash = null,
       key_proven_at = $2
     where node_instance_id = $1`,
    [node_instance_id, proof.signed_at],
  );
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'node',
      // Each replica caches credentials and drops the former one when it reads this fact.
      kind: 'credential.replaced',
      summary: 'the agent proved its key and got a new credential; the former one is void',
      node_id: registered.node_id,
      node_instance_id,
      correlation_id: context.correlation_id,
    },
  ]);
  await closeContests(tx, registered.node_id, now);
  return {
    ...(await readReply(tx, registered, node_instance_id, credential, context.credential_expires_at ?? null)),
    first: false,
  };
}

async function registerWithJoinToken(
  tx: Transaction,
  token: string,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { now, arrival } = context;
  const join = requireValidToken(await findJoinTokenBySecret(tx, token), now);
  if (!request.name)
    throw new ApiProblem('invalid_request', {
      detail: 'A join needs a name.',
      errors: [{ path: '/name', message: 'is required with join_token' }],
    });
  const pool = await currentPool(tx, join.pool, 'for share of pool');
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${join.pool} does not exist any more.`);
  const [existing] = await tx.query<NodeRow>(
    `select *
     from nodes
     where pool = $1
       and name = $2
       and status <> 'retired'
     for no key update`,
    [join.pool, request.name],
    { prepared: true },
  );
  const joinRequest = { ...request, name: request.name, join_token: token };
  if (!existing) {
    const newcomer = { request: joinRequest, context, join, pool };
    if ((await findJoinsBeyondLimit(tx, [newcomer])).size > 0) throw poolFullProblem(pool);
    const [registration] = await admitNewcomers(tx, [newcomer]);
    if (!registration)
      throw new ApiProblem('name_taken', `Another machine joined as ${request.name} at the same time.`);
    return registration;
  }
  if (!arrival) return registerWithKeyProof(tx, existing, join, joinRequest, context);
  // A client of a foreign protocol cannot prove a key. It gets a known name only if the caller
  // judged it to be a restart, and only while no live instance holds the name.
  if (!arrival.judged || isNameHeld(existing.status))
    throw new ApiProblem('name_taken', `${request.name} is ${existing.status} in pool ${join.pool}.`);
  await requireUnchangedName(tx, existing, arrival.judged);
  await spendUnlessKnown(tx, existing, join);
  return registerNewInstance(tx, existing, join, joinRequest, context);
}

/**
 * Registers a restarted instance that still has its credential, and counts the restart. The node
 * changes its status only if it is still provisioning or failed within its rescue window.
 */
async function registerWithCredential(
  tx: Transaction,
  caller: InstanceRow,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { arrival } = context;
  const node = await lockNode(tx, caller.node_id);
  const instance = await instanceRow(tx, caller.node_instance_id, 'for update');
  if (!node || !instance) throw new ApiProblem('credential_unknown');
  if (arrival?.judged) await requireUnchangedName(tx, node, arrival.judged);
  if (arrival?.join_token_id) await spendUnlessKnown(tx, node, { token_id: arrival.join_token_id, pool: node.pool });
  const registered = await applyRegistration(tx, node, instance, request, context);
  const { node_id, node_instance_id } = instance;
  const keyChange = { ...context, node_id, node_instance_id, former: instance, via: 'credential' } as const;
  const key = await changeKey(tx, request, keyChange);
  await tx.query(
    `update instances
     set registrations = registrations + 1,
       agent_version = $2,
       base_url = coalesce($3, base_url),
       agent_public_key = $4,
       key_unproven_since = $5,
       trusted_public_key = $6
     where node_instance_id = $1`,
    [
      node_instance_id,
      request.version,
      request.base_url ?? null,
      key.agent_public_key,
      key.key_unproven_since,
      key.trusted_public_key,
    ],
  );
  if (arrival?.join_token_id) await addEarlierToken(tx, node_instance_id, arrival.join_token_id);
  await storeArrival(tx, node_instance_id, arrival);
  return readReply(tx, registered, node_instance_id, undefined, caller.credential_expires_at);
}

/** Records a refused registration as evidence, so that an operator finds the machine. */
async function recordRefusal(
  db: Database,
  problem: ApiProblem,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<void> {
  const ids = request.enrollment_token ? context.installation.readEnrollmentToken(request.enrollment_token) : undefined;
  const node = ids && (await nodeRow(db, ids.node_id));
  // The API counts denials of unknown callers. A row for each would let them fill the store.
  if (!node && errorCatalogue[problem.code].owner_layer === 'auth') return;
  await recordEvidence(db, [
    {
      at: context.now,
      layer: 'api',
      kind: 'registration.refused',
      summary: `a registration was refused: ${problem.message}`,
      data: { code: problem.code, version: request.version, ...(request.name && { name: request.name }) },
      node_id: node ? ids.node_id : null,
      node_instance_id: node ? ids.node_instance_id : null,
      correlation_id: context.correlation_id,
    },
  ]);
}

/** Estimates the writes of one join: its node, its instance and the evidence of both. */
const joinRows = 5;
const joinBytes = 4 * 1024;

const isJoin = (request: RegisterRequest): request is JoinRequest => Boolean(request.join_token && request.name);

/** Registers a machine. `caller` is the instance whose credential the request was sent with. */
export async function register(
  db: Database,
  request: RegisterRequest,
  caller: InstanceRow | undefined,
  context: RegistrationContext,
): Promise<Registration> {
  const chargedDb = context.account ? withWriteAccount(db, context.account) : db;
  try {
    const joined = !caller && !request.enrollment_token && isJoin(request) && (await joinInBatch(db, request, context));
    if (joined) {
      // The batch has no account because its joins have several, so each join is charged here.
      context.account?.charge(joinRows, joinBytes);
      return joined;
    }
    return await chargedDb.transaction((tx) => {
      if (caller) return registerWithCredential(tx, caller, request, context);
      if (request.enrollment_token) return registerWithEnrollmentToken(tx, request.enrollment_token, request, context);
      if (request.join_token) return registerWithJoinToken(tx, request.join_token, request, context);
      throw new ApiProblem(
        'token_missing',
        'Registration needs an enrollment_token, a join_token or an instance credential.',
      );
    });
  } catch (error) {
    if (error instanceof NameContested) await recordContest(chargedDb, error.contest, context.clock, context.now);
    if (error instanceof ApiProblem) await recordRefusal(chargedDb, error, request, context);
    throw error;
  }
}
