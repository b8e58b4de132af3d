/**
 * Registers machines that join under new names, in batches. Joins that arrive while a batch is
 * being written go into the next batch. A batch needs the same number of statements as one join, so
 * a rack that starts at once costs little per machine.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, unwrapSettled } from '../../base/batching/bisect.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import { currentPool, type PoolRow } from '../rows/pools.ts';
import { findJoinTokenBySecret, type JoinTokenRow, spendJoinToken } from '../rows/tokens.ts';
import { createNewcomers } from '../transitions/node-transition.ts';
import { replyOf, startMove } from './apply-registration.ts';
import { createRegisteredInstances } from './instances.ts';
import { findJoinsBeyondLimit, poolFullProblem } from './joins/pool-limit.ts';
import { hasExpired, spentProblem } from './joins/token-validity.ts';
import type { Registration, RegistrationContext } from './registration-types.ts';

export interface JoinRequest extends RegisterRequest {
  name: string;
  join_token: string;
}

interface JoinAttempt {
  request: JoinRequest;
  context: RegistrationContext;
}

/** A join whose token is valid. */
interface ValidJoin extends JoinAttempt {
  join: JoinTokenRow;
  pool: PoolRow;
}

/** Builds the rows of a join: the node and the registered instance. */
const buildRows = ({ request, context, join, pool }: ValidJoin) => {
  const { clock, now, correlation_id, environment, arrival } = context;
  const node_id = newNodeId(clock);
  const node_instance_id = newNodeInstanceId(clock);
  const instance = { node_instance_id, created_at: now };
  return {
    credential: newSecret('swc'),
    instance: {
      node_instance_id,
      node_id,
      join_token_id: join.token_id,
      agent_public_key: request.agent_public_key ?? null,
      agent_version: request.version,
      base_url: request.base_url ?? null,
      door: arrival?.protocol ?? null,
      announced_interval_seconds: arrival?.announced_interval_seconds ?? null,
      client_instance: arrival?.client_instance ?? null,
      credential_expires_at: context.credential_expires_at ?? null,
      at: now,
    },
    newcomer: {
      fresh: {
        node_id,
        pool: pool.name,
        pool_generation: pool.generation,
        name: request.name,
        zone: pool.document.zone ?? null,
        node_instance_id,
        workflow_id: null,
        correlation_id,
        requested_provision_seconds: null,
        labels: request.labels ?? {},
      },
      pool: pool.document,
      cause: { by: 'join', reason: 'it joined by itself' } as const,
      now,
      planMove: (node: Parameters<typeof startMove>[0]) =>
        environment.decide.effectOfRegistration(node, now) === 'start'
          ? startMove(node, instance, request, context)
          : undefined,
    },
  };
};

/** Returns undefined for a taken name. Throws for all joins if a token has too few uses left. */
export async function admitNewcomers(
  tx: Transaction,
  joins: readonly ValidJoin[],
): Promise<(Registration | undefined)[]> {
  const [first] = joins;
  if (!first) return [];
  const rows = joins.map(buildRows);
  const nodes = await createNewcomers(
    tx,
    rows.map(({ newcomer }) => newcomer),
    first.context.environment,
  );
  const created = rows.filter((_, place) => nodes[place]);
  await createRegisteredInstances(
    tx,
    created.map(({ instance, credential }) => ({ ...instance, credential })),
  );
  const createdByToken = Map.groupBy(created, ({ instance }) => instance.join_token_id);
  // Tokens are spent in id order, so that two batches cannot deadlock on their rows.
  for (const [token_id, members] of [...createdByToken].sort(([a], [b]) => (a < b ? -1 : 1)))
    if (!(await spendJoinToken(tx, token_id, members.length)))
      throw spentProblem({ token_id, pool: members[0]?.newcomer.fresh.pool ?? first.pool.name });
  return rows.map(({ instance, credential }, place) => {
    const node = nodes[place];
    return (
      node &&
      replyOf(node, joins[place]?.pool.document, instance.node_instance_id, credential, instance.credential_expires_at)
    );
  });
}

/**
 * Reads the tokens and pools of the joins. Returns a function that finds the token and pool of one
 * join. It returns undefined if the token is invalid, or if earlier joins of the batch take its
 * last uses.
 */
async function createTokenFinder(tx: Transaction, attempts: readonly JoinAttempt[]) {
  const secrets = [...new Set(attempts.map(({ request }) => request.join_token))].sort();
  const tokens = new Map<string, { join: JoinTokenRow; pool: PoolRow }>();
  for (const secret of secrets) {
    const join = await findJoinTokenBySecret(tx, secret);
    const pool = join && !join.revoked_at && (await currentPool(tx, join.pool, 'for share of pool'));
    if (pool) tokens.set(secret, { join, pool });
  }
  const usesInBatch = new Map<string, number>();
  return ({ request, context }: JoinAttempt) => {
    const token = tokens.get(request.join_token);
    if (!token || hasExpired(token.join, context.now)) return undefined;
    // A token without enough uses would fail the whole batch.
    const uses = usesInBatch.get(request.join_token) ?? 0;
    if (token.join.max_uses !== null && token.join.uses + uses >= token.join.max_uses) return undefined;
    usesInBatch.set(request.join_token, uses + 1);
    return token;
  };
}

type Answer = Registration | ApiProblem | undefined;

const joinAll = (db: Database, attempts: readonly JoinAttempt[]): Promise<Answer[]> =>
  db.transaction(async (tx) => {
    const findToken = await createTokenFinder(tx, attempts);
    const valid = attempts.flatMap((attempt) => {
      const token = findToken(attempt);
      return token ? [{ attempt, ...attempt, ...token }] : [];
    });
    const refused = await findJoinsBeyondLimit(tx, valid);
    const allowed = valid.filter((join) => !refused.has(join));
    const registrations = await admitNewcomers(tx, allowed);
    const answers = new Map<JoinAttempt, Answer>(allowed.map(({ attempt }, place) => [attempt, registrations[place]]));
    for (const { attempt, pool } of refused) answers.set(attempt, poolFullProblem(pool));
    return attempts.map((attempt) => answers.get(attempt));
  });

/** Two batches run at once, so a batch that waits for a pool's lock does not delay other pools. */
const batchLimits = { max_keys: 100, max_concurrent: 2 };
const isUnavailable = (error: unknown) => error instanceof StoreUnavailable;

type Batcher = (attempt: JoinAttempt) => Promise<PromiseSettledResult<Answer>>;

const batchers = new WeakMap<Database, Batcher>();

function getBatcher(db: Database): Batcher {
  const batcher =
    batchers.get(db) ??
    createBatcher(
      (attempts: JoinAttempt[]) => bisect(attempts, (some) => joinAll(db, some), isUnavailable),
      batchLimits,
    );
  batchers.set(db, batcher);
  return batcher;
}

/**
 * Returns undefined if the name is known or the token is invalid. The caller then registers the
 * machine alone, which finds the exact reason.
 */
export const joinInBatch = async (
  db: Database,
  request: JoinRequest,
  context: RegistrationContext,
): Promise<Registration | undefined> => {
  const answer = unwrapSettled(await getBatcher(db)({ request, context }));
  if (answer instanceof ApiProblem) throw answer;
  return answer;
};
