/**
 * Machines that join by themselves under a name that nobody has. A rack may come up in the same moment: whoever comes while others are
 * written is written with the next, all of them by as many statements as one. So the more come, the less each costs, and none waits for
 * more than the lot before it.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, settledAnswer } from '../../base/batching/bisect.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent/agent.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import { currentPool, type PoolRow } from '../rows/pools.ts';
import { type JoinTokenRow, joinTokenBySecret, spendJoinToken } from '../rows/tokens.ts';
import { createNewcomers } from '../transitions/node-transition.ts';
import { createRegisteredInstances } from './instances.ts';
import { joinsBeyondLimit, poolFull } from './joins/pool-limit.ts';
import { hasExpired, spentProblem } from './joins/token-validity.ts';
import { type Registration, type RegistrationContext, replyOf, startOf } from './registration-types.ts';

/** Who asks to join, by which token; all that is needed to see whether it may. */
export interface JoinRequest extends RegisterRequest {
  name: string;
  join_token: string;
}

interface Asking {
  request: JoinRequest;
  context: RegistrationContext;
}

interface Joining extends Asking {
  join: JoinTokenRow;
  pool: PoolRow;
}

/** What is written of one: its node, and the instance that is here already. */
const arrive = ({ request, context, join, pool }: Joining) => {
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
      onward: (node: Parameters<typeof startOf>[0]) =>
        environment.decide.effectOfRegistration(node, now) === 'start'
          ? startOf(node, instance, request, context, false)
          : undefined,
    },
  };
};

/** Answers nothing of those whose name is somebody's. A token that has too few uses left fails them all. */
export async function admitNewcomers(
  tx: Transaction,
  joining: readonly Joining[],
): Promise<(Registration | undefined)[]> {
  const [first] = joining;
  if (!first) return [];
  const arrived = joining.map(arrive);
  const nodes = await createNewcomers(
    tx,
    arrived.map(({ newcomer }) => newcomer),
    first.context.environment,
  );
  const there = arrived.filter((_, place) => nodes[place]);
  await createRegisteredInstances(
    tx,
    there.map(({ instance, credential }) => ({ ...instance, credential })),
  );
  const uses = Map.groupBy(there, ({ instance }) => instance.join_token_id);
  for (const [token_id, users] of [...uses].sort(([a], [b]) => (a < b ? -1 : 1)))
    if (!(await spendJoinToken(tx, token_id, users.length)))
      throw spentProblem({ token_id, pool: users[0]?.newcomer.fresh.pool ?? first.pool.name });
  return arrived.map(({ instance, credential }, place) => {
    const node = nodes[place];
    return (
      node &&
      replyOf(
        node,
        joining[place]?.pool.document,
        instance.node_instance_id,
        credential,
        instance.credential_expires_at,
      )
    );
  });
}

/** By which token and into which pool; nothing where it may not, or only under a name that is known already. */
async function findTokens(tx: Transaction, asking: readonly Asking[]) {
  const secrets = [...new Set(asking.map(({ request }) => request.join_token))].sort();
  const found = new Map<string, { join: JoinTokenRow; pool: PoolRow }>();
  for (const secret of secrets) {
    const join = await joinTokenBySecret(tx, secret);
    const pool = join && !join.revoked_at && (await currentPool(tx, join.pool, 'for share of pool'));
    if (pool) found.set(secret, { join, pool });
  }
  const taken = new Map<string, number>();
  return ({ request, context }: Asking) => {
    const by = found.get(request.join_token);
    if (!by || hasExpired(by.join, context.now)) return undefined;
    // No more than the token has uses left, or it would fail the whole batch.
    const uses = taken.get(request.join_token) ?? 0;
    if (by.join.max_uses !== null && by.join.uses + uses >= by.join.max_uses) return undefined;
    taken.set(request.join_token, uses + 1);
    return by;
  };
}

type Answer = Registration | ApiProblem | undefined;

const together = (db: Database, asking: readonly Asking[]): Promise<Answer[]> =>
  db.transaction(async (tx) => {
    const tokenOf = await findTokens(tx, asking);
    const valid = asking.flatMap((asked) => {
      const by = tokenOf(asked);
      return by ? [{ asked, ...asked, ...by }] : [];
    });
    const refused = await joinsBeyondLimit(tx, valid);
    const allowed = valid.filter((joining) => !refused.has(joining));
    const answers = await admitNewcomers(tx, allowed);
    const answerOf = new Map<Asking, Answer>(allowed.map(({ asked }, place) => [asked, answers[place]]));
    for (const { asked, pool } of refused) answerOf.set(asked, poolFull(pool));
    return asking.map((asked) => answerOf.get(asked));
  });

/** Two lots at a time: one that waits for a pool that is being declared does not keep those of others. */
const limits = { max_keys: 100, max_concurrent: 2 };
const isAway = (error: unknown) => error instanceof StoreUnavailable;

type Lot = (asking: Asking) => Promise<PromiseSettledResult<Answer>>;

const lots = new WeakMap<Database, Lot>();

function lotOf(db: Database): Lot {
  const lot =
    lots.get(db) ?? createBatcher((asking: Asking[]) => bisect(asking, (some) => together(db, some), isAway), limits);
  lots.set(db, lot);
  return lot;
}

/** Undefined for whoever is no newcomer, or may not join: what becomes of it is seen alone. */
export const joinInBatch = async (
  db: Database,
  request: JoinRequest,
  context: RegistrationContext,
): Promise<Registration | undefined> => {
  const answer = settledAnswer(await lotOf(db)({ request, context }));
  if (answer instanceof ApiProblem) throw answer;
  return answer;
};
