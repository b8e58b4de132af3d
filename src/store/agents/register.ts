/** Registration: how an instance becomes known, by enrolment token, by join token, or again by its credential. */
import { secondsLater } from '../../base/clock.ts';
import { hashSecret, newSecret } from '../../base/credentials/random-secret.ts';
import { bornAt, type NodeInstanceId, newNodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem, errorCatalogue } from '../../contract/errors/errors.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { EnrollmentClaims } from '../keys/installation.ts';
import { chargedTo, type Database, type Transaction } from '../pg/database.ts';
import { lockNode, type NodeRow, nodeRow } from '../rows/nodes.ts';
import { currentPool, poolGeneration } from '../rows/pools.ts';
import { type JoinTokenRow, joinTokenBySecret } from '../rows/tokens.ts';
import { moveAllocations } from '../transitions/allocation-transition.ts';
import { amendNode } from '../transitions/amend-node.ts';
import { transition } from '../transitions/node-transition.ts';
import { budgetOf, requireMoved } from '../transitions/transition-rules.ts';
import { changeKey, restoreKey } from './agent-keys/key-change.ts';
import { type KeyStanding, provenKey, trustedKeyOf } from './agent-keys/trusted-key.ts';
import { createInstance, fenceInstance, type InstanceRow, instanceRow } from './instances.ts';
import { admitNewcomers, type JoinRequest, joinInBatch } from './join-newcomers.ts';
import { keepArrival, keepEarlierToken } from './joins/client-arrival.ts';
import { NameContested, noteContested, settleContested } from './joins/contested-names.ts';
import { checkKeyProof, type KeyProofResult } from './joins/key-proof.ts';
import { nameHeld, requireUnchangedName, spendUnlessKnown, unproven } from './joins/known-names.ts';
import { joinsBeyondLimit, poolFull } from './joins/pool-limit.ts';
import { isSpent, requireValid, spentProblem } from './joins/token-validity.ts';
import { type Registration, type RegistrationContext, replyOf, startOf } from './registration-types.ts';

const fencedProblem = (reason: string | null) =>
  new ApiProblem('instance_fenced', reason ? `This instance no longer counts: ${reason}.` : {});

async function issueCredential(
  tx: Transaction,
  instance: NodeInstanceId,
  request: RegisterRequest,
  key: KeyStanding,
  { now, credential_expires_at }: Pick<RegistrationContext, 'now' | 'credential_expires_at'>,
): Promise<string> {
  const credential = newSecret('swc');
  await tx.query(
    `update instances set credential_hash = $2, credential_used_at = null,
       agent_public_key = $3, key_unproven_since = $7, trusted_public_key = $9,
       agent_version = $4, base_url = $5,
       credential_expires_at = $8, next_credential_hash = null, next_credential_expires_at = null,
       registered_at = coalesce(registered_at, $6), registrations = registrations + 1
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

/** Takes the node's status where a registration takes it; throws the problem of one that does not count. */
async function admit(
  tx: Transaction,
  node: NodeRow,
  instance: InstanceRow,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<NodeRow> {
  const { now } = context;
  if (instance.fenced_at || node.node_instance_id !== instance.node_instance_id)
    throw fencedProblem(instance.fence_reason);
  const effect = context.environment.decide.effectOfRegistration(node, now);
  const unknownSoFar = effect === 'return' && !instance.registered_at;
  if (effect === 'fenced' && node.status === 'failed') throw fencedProblem('its rescue window is over');
  if (effect === 'fenced' || unknownSoFar) throw fencedProblem(`the node is ${node.status}`);
  if (effect === 'barred')
    throw new ApiProblem('node_fenced', 'The node is quarantined; an operator can reactivate it.');
  if (effect === 'count' || effect === 'return') {
    if (!instance.registered_at) return node;
    const restarts = node.restarts + 1;
    return amendNode(
      tx,
      node,
      // It may have come back at another address.
      { restarts, ...(request.base_url && { endpoint: request.base_url }) },
      {
        at: now,
        layer: 'node',
        kind: 'node.restarted',
        summary: `its agent ${request.version} registered again (restart ${restarts})`,
        data: { version: request.version },
        correlation_id: node.correlation_id ?? context.correlation_id,
      },
    );
  }
  const move = startOf(node, instance, request, context, effect === 'rescue');
  const [outcome] = await transition(tx, [move], now, context.environment);
  if (!outcome?.moved)
    throw new Error(`registration of ${node.node_id} was refused by its transition: ${outcome?.because}`);
  return outcome.node;
}

const replyFor = async (
  tx: Transaction,
  node: NodeRow,
  instance: NodeInstanceId,
  credential: string | undefined,
  credential_expires_at: Date | null,
): Promise<Registration> =>
  replyOf(node, await poolGeneration(tx, node.pool, node.pool_generation), instance, credential, credential_expires_at);

/** The store does not know the instance yet, so its deadline is told from its birth, which its id carries, and its pool. */
async function notYet(tx: Transaction, claims: EnrollmentClaims, context: RegistrationContext): Promise<ApiProblem> {
  const pool = await currentPool(tx, claims.pool);
  const budget = budgetOf('provision', pool?.document ?? { driver: '' }, context.environment, null);
  const deadline = secondsLater(bornAt(claims.node_instance_id) ?? context.now, budget.seconds);
  return new ApiProblem('enrollment_pending', { retry_after_seconds: 1, deadline_at: deadline.toISOString() });
}

async function byEnrollmentToken(
  tx: Transaction,
  token: string,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const claims = context.installation.readEnrollmentToken(token);
  if (!claims) throw new ApiProblem('enrollment_invalid', 'The signature of the enrolment token does not match.');
  const node = await lockNode(tx, claims.node_id);
  const instance = node && (await instanceRow(tx, claims.node_instance_id, 'for update'));
  if (!node || !instance) throw await notYet(tx, claims, context);
  if (instance.fenced_at) throw fencedProblem(instance.fence_reason);
  if (!instance.enrollment_token_hash?.equals(hashSecret(token)))
    throw new ApiProblem('enrollment_invalid', 'Another enrolment token was issued since.');
  if (instance.credential_used_at)
    throw new ApiProblem('enrollment_invalid', 'Its credential is already in use; register with the credential.');
  const admitted = await admit(tx, node, instance, request, context);
  const { node_id, node_instance_id } = instance;
  const changing = { ...context, node_id, node_instance_id, former: instance, via: 'enrollment_token' } as const;
  const key = await changeKey(tx, request, changing);
  const credential = await issueCredential(tx, node_instance_id, request, key, context);
  return replyFor(tx, admitted, node_instance_id, credential, context.credential_expires_at ?? null);
}

/** The machine is the same, so whoever fell with it waits for it again: another tenant must not find it free and never cleaned. */
async function comeBack(
  tx: Transaction,
  node: NodeRow,
  node_instance_id: NodeInstanceId,
  context: RegistrationContext,
) {
  const { now, environment, correlation_id } = context;
  const { node_id, status_since: standing_since } = node;
  const cited = { node_id, reason: 'the machine joined again', correlation_id };
  const set = { node_instance_id, registered_at: null };
  const [outcome] = await transition(tx, [{ ...cited, to: 'provisioning', by: 're-enroll', set }], now, environment);
  if (!outcome?.moved || outcome.from !== 'failed') return;
  const rescue = { ...cited, from: ['failed'], to: 'provisioning', by: 'rescue', standing_since } as const;
  const rescued = await moveAllocations(tx, [{ ...rescue, node: outcome.node }], now, environment);
  requireMoved(rescued, 'not_found', 'status_moved_on');
}

/** Takes the known name back as a new instance; what the former one still says is fenced off. */
async function asNewInstance(
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
  else await comeBack(tx, existing, node_instance_id, context);
  const node = await lockNode(tx, node_id);
  const instance = await instanceRow(tx, node_instance_id, 'for update');
  if (!node || !instance) throw new Error('a node vanished in its own transaction');
  const admitted = await admit(tx, node, instance, request, context);
  const changing = { ...context, node_id, node_instance_id, former: former ?? instance, via: 'join_token' } as const;
  const key = await changeKey(tx, request, changing);
  const credential = await issueCredential(tx, node_instance_id, request, key, context);
  await keepArrival(tx, node_instance_id, context.arrival);
  return replyFor(tx, admitted, node_instance_id, credential, context.credential_expires_at ?? null);
}

/** An agent that lost its credential and still has its key is the same instance: it gets another credential. */
async function byKey(
  tx: Transaction,
  existing: NodeRow,
  join: JoinTokenRow,
  request: JoinRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { now } = context;
  const instance = existing.node_instance_id && (await instanceRow(tx, existing.node_instance_id, 'for update'));
  const isOwn = instance && !instance.fenced_at && instance.door === null;
  const proof: KeyProofResult = isOwn ? checkKeyProof(request, instance, now) : { proven: false, because: 'missing' };
  if (!isOwn || !proof.proven) {
    if (isSpent(join)) throw spentProblem(join);
    throw unproven(existing, join, request, instance || undefined, proof);
  }
  const admitted = await admit(tx, existing, instance, request, context);
  const { node_instance_id } = instance;
  await restoreKey(tx, instance, { ...context, via: 'key_proof' });
  const credential = await issueCredential(tx, node_instance_id, request, provenKey(trustedKeyOf(instance)), context);
  await tx.query('update instances set next_credential_hash = null, key_proven_at = $2 where node_instance_id = $1', [
    node_instance_id,
    proof.signed_at,
  ]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'node',
      // Replicas remember credentials; this fact makes them forget the former one.
      kind: 'credential.replaced',
      summary: 'the agent proved its key and got a new credential; the former one is void',
      node_id: admitted.node_id,
      node_instance_id,
      correlation_id: context.correlation_id,
    },
  ]);
  await settleContested(tx, admitted.node_id, now);
  return {
    ...(await replyFor(tx, admitted, node_instance_id, credential, context.credential_expires_at ?? null)),
    first: false,
  };
}

async function byJoinToken(
  tx: Transaction,
  token: string,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const { now, arrival } = context;
  const join = requireValid(await joinTokenBySecret(tx, token), now);
  if (!request.name)
    throw new ApiProblem('invalid_request', {
      detail: 'A join needs a name.',
      errors: [{ path: '/name', message: 'is required with join_token' }],
    });
  const pool = await currentPool(tx, join.pool, 'for share of pool');
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${join.pool} is gone.`);
  const [existing] = await tx.query<NodeRow>(
    `select * from nodes where pool = $1 and name = $2 and status <> 'retired' for no key update`,
    [join.pool, request.name],
    { often: true },
  );
  const asked = { ...request, name: request.name, join_token: token };
  if (!existing) {
    const newcomer = { request: asked, context, join, pool };
    if ((await joinsBeyondLimit(tx, [newcomer])).size > 0) throw poolFull(pool);
    const [registered] = await admitNewcomers(tx, [newcomer]);
    if (!registered)
      throw new ApiProblem('name_taken', `Another machine joined as ${request.name} in the same moment.`);
    return registered;
  }
  if (!arrival) return byKey(tx, existing, join, asked, context);
  // Of another protocol: only a return that was judged to be a restart may take a name that is known.
  if (!arrival.judged || nameHeld.includes(existing.status))
    throw new ApiProblem('name_taken', `${request.name} is ${existing.status} in pool ${join.pool}.`);
  await requireUnchangedName(tx, existing, arrival.judged);
  await spendUnlessKnown(tx, existing, join);
  return asNewInstance(tx, existing, join, asked, context);
}

/** An agent that restarted says hello again: counted, changes no status, and a failed one is rescued as by a beat. */
async function byCredential(
  tx: Transaction,
  known: InstanceRow,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<Registration> {
  const node = await lockNode(tx, known.node_id);
  const instance = await instanceRow(tx, known.node_instance_id, 'for update');
  if (!node || !instance) throw new ApiProblem('credential_unknown');
  if (context.arrival?.judged) await requireUnchangedName(tx, node, context.arrival.judged);
  if (context.arrival?.join_token_id)
    await spendUnlessKnown(tx, node, { token_id: context.arrival.join_token_id, pool: node.pool });
  const admitted = await admit(tx, node, instance, request, context);
  const { node_id, node_instance_id } = instance;
  const changing = { ...context, node_id, node_instance_id, former: instance, via: 'credential' } as const;
  const key = await changeKey(tx, request, changing);
  await tx.query(
    `update instances set registrations = registrations + 1, agent_version = $2, base_url = coalesce($3, base_url),
       agent_public_key = $4, key_unproven_since = $5, trusted_public_key = $6
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
  const { arrival } = context;
  if (arrival?.join_token_id) await keepEarlierToken(tx, node_instance_id, arrival.join_token_id);
  await keepArrival(tx, node_instance_id, arrival);
  return replyFor(tx, admitted, node_instance_id, undefined, known.credential_expires_at);
}

/** A refused registration is a fact as well: the machine that knocks in vain must be findable. */
async function tellRefusal(
  db: Database,
  refused: ApiProblem,
  request: RegisterRequest,
  context: RegistrationContext,
): Promise<void> {
  const claims = request.enrollment_token
    ? context.installation.readEnrollmentToken(request.enrollment_token)
    : undefined;
  const known = claims && (await nodeRow(db, claims.node_id));
  // A stranger's knock is a denial, which the edge counts; written here one by one, strangers could fill the store.
  if (!known && errorCatalogue[refused.code].owner_layer === 'auth') return;
  await recordEvidence(db, [
    {
      at: context.now,
      layer: 'api',
      kind: 'registration.refused',
      summary: `a registration was refused: ${refused.message}`,
      data: { code: refused.code, version: request.version, ...(request.name && { name: request.name }) },
      node_id: known ? claims.node_id : null,
      node_instance_id: known ? claims.node_instance_id : null,
      correlation_id: context.correlation_id,
    },
  ]);
}

/** What a new machine costs, about: its node, its instance and the facts of both. */
const joinedRows = 5;
const joinedBytes = 4 * 1024;

const isJoin = (request: RegisterRequest): request is JoinRequest => Boolean(request.join_token && request.name);

export async function register(
  db: Database,
  request: RegisterRequest,
  known: InstanceRow | undefined,
  context: RegistrationContext,
): Promise<Registration> {
  const charged = context.account ? chargedTo(db, context.account) : db;
  try {
    const joined = !known && !request.enrollment_token && isJoin(request) && (await joinInBatch(db, request, context));
    if (joined) {
      // Written in one batch with others, so it is charged here.
      context.account?.charge(joinedRows, joinedBytes);
      return joined;
    }
    return await charged.transaction((tx) => {
      if (known) return byCredential(tx, known, request, context);
      if (request.enrollment_token) return byEnrollmentToken(tx, request.enrollment_token, request, context);
      if (request.join_token) return byJoinToken(tx, request.join_token, request, context);
      throw new ApiProblem(
        'token_missing',
        'Registration needs an enrollment_token, a join_token or an instance credential.',
      );
    });
  } catch (refused) {
    if (refused instanceof NameContested) await noteContested(charged, refused.contest, context.clock, context.now);
    if (refused instanceof ApiProblem) await tellRefusal(charged, refused, request, context);
    throw refused;
  }
}
