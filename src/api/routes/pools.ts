/** Handles pools and their join tokens. */
import type { TSchema } from 'typebox';
import { now, secondsLater } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { poolFor, unmaskPool } from '../../contract/pool-fields/masked.ts';
import { refusedFields } from '../../contract/pool-fields/privileged.ts';
import { referencesIn } from '../../contract/pool-fields/references.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { currentPool, declarePool, deletePool, isPoolInUse, listPools, readPool } from '../../store/rows/pools.ts';
import { lockSecrets } from '../../store/rows/secrets/secrets.ts';
import { createJoinToken, joinTokenWire, listJoinTokens, revokeJoinToken } from '../../store/rows/tokens.ts';
import { actorOf, type Person } from '../http/callers.ts';
import { type Check, compileCheck } from '../http/validation.ts';
import type { ApiServices, Handlers } from '../services.ts';

const specChecks = new Map<TSchema, Check>();

function checkSpec(schema: TSchema, spec: unknown): void {
  let check = specChecks.get(schema);
  if (!check) {
    check = compileCheck(schema, 'body', 'invalid_spec');
    specChecks.set(schema, check);
  }
  try {
    check(spec);
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    const errors = error.extras.errors?.map((each) => ({ ...each, path: each.path.replace(/^\/body/, '/body/spec') }));
    throw new ApiProblem('invalid_spec', {
      ...error.extras,
      errors,
      detail: errors?.[0] ? `${errors[0].path} ${errors[0].message}.` : undefined,
    });
  }
}

export function checkRuntimeClass(name: string | undefined, path: string, { environment }: ApiServices): void {
  if (name === undefined || Object.hasOwn(environment.runtime_classes, name)) return;
  const known = Object.keys(environment.runtime_classes).join(', ');
  throw new ApiProblem('invalid_request', {
    detail: `There is no runtime class ${name}; this server has ${known}.`,
    errors: [{ path: `${path}/runtime_class`, message: `must be one of ${known}` }],
  });
}

function checkBudgets({ budgets }: PoolDocument): void {
  const { floor_seconds = 0, ceiling_seconds = Number.POSITIVE_INFINITY } = budgets ?? {};
  if (floor_seconds <= ceiling_seconds) return;
  throw new ApiProblem('invalid_request', {
    detail: `The budget floor of ${floor_seconds} s is above the ceiling of ${ceiling_seconds} s.`,
    errors: [{ path: '/body/budgets/floor_seconds', message: 'must not be above ceiling_seconds' }],
  });
}

function checkDocument(
  name: string,
  document: PoolDocument,
  stored: PoolDocument | undefined,
  person: Person,
  services: ApiServices,
): void {
  if (document.name !== undefined && document.name !== name) {
    throw new ApiProblem('invalid_request', {
      detail: `The document is for pool ${document.name}, but the address is for pool ${name}.`,
      errors: [{ path: '/body/name', message: 'must agree with the address' }],
    });
  }
  checkRuntimeClass(document.runtime_class, '/body', services);
  checkBudgets(document);
  const driver = services.drivers.get(document.driver);
  if (!driver)
    throw new ApiProblem(
      'driver_unknown',
      `There is no driver ${document.driver}; this server has ${[...services.drivers.keys()].join(', ')}.`,
    );
  const isAdmin = person.role === 'admin';
  if (driver.host_bound && ((!isAdmin && !stored) || !services.settings.allow_host_bound_pools))
    throw new ApiProblem('host_bound_pool_refused');
  if (!isAdmin) checkPrivileged(stored, document, services);
  if (driver.supervision === 'agentless' && (document.requires ?? []).length > 0)
    throw new ApiProblem('invalid_request', {
      detail: `The agent checks requirements, and machines of the driver ${driver.name} run no agent.`,
      errors: [{ path: '/body/requires', message: 'needs a driver whose machines run the agent' }],
    });
  checkSpec(driver.spec_schema, document.spec ?? {});
}

/** One check of privileged fields is enough: every client declares pools through this route. */
function checkPrivileged(stored: PoolDocument | undefined, document: PoolDocument, { settings }: ApiServices): void {
  const refused = refusedFields(stored, document, settings.operators_may);
  const [first] = refused;
  if (!first) return;
  const permission = first.allowed_by
    ? `an admin may set it, or an operator to a value listed under operators_may.${first.allowed_by}`
    : 'only an admin may set it';
  throw new ApiProblem('pool_field_privileged', {
    detail: `${first.field}: ${first.reason}; ${permission}.`,
    errors: refused.map(({ path, reason, allowed_by }) => ({
      path,
      message: `${reason}; ${allowed_by ? `only admins, or a value of operators_may.${allowed_by}` : 'only admins'}`,
    })),
  });
}

/** Replaces each mask marker by the stored value. */
function unmask(sent: PoolDocument, stored: PoolDocument | undefined): PoolDocument {
  const { document, unknown } = unmaskPool(sent, stored);
  if (unknown.length > 0)
    throw new ApiProblem('masked_value_unknown', {
      detail: `${unknown[0]} holds a mask marker, but no value is stored there.`,
      errors: unknown.map((path) => ({ path, message: 'must be the value itself, or the name of a secret' })),
    });
  return document;
}

async function checkSecrets(tx: Transaction, { spec }: PoolDocument): Promise<void> {
  const references = referencesIn(spec);
  if (references.length === 0) return;
  const stored = await lockSecrets(
    tx,
    references.map(({ secret }) => secret),
  );
  const missing = references.filter(({ secret }) => !stored.has(secret));
  if (missing.length === 0) return;
  throw new ApiProblem('invalid_spec', {
    detail: `There is no secret ${missing[0]?.secret}. Set it first: slipway secrets set ${missing[0]?.secret}.`,
    errors: missing.map(({ variable, secret }) => ({
      path: `/body/spec/env/${variable}`,
      message: `names the secret ${secret}, which is not stored`,
    })),
  });
}

async function mustFindPool(name: string, services: ApiServices) {
  const pool = await readPool(services.db, name);
  if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${name}.`);
  return pool;
}

const defaultJoinSeconds = 24 * 3600;

type PoolRoutes =
  | 'pool-put'
  | 'pool-get'
  | 'pool-list'
  | 'pool-delete'
  | 'join-token-create'
  | 'join-token-list'
  | 'join-token-delete';

export const poolHandlers: Pick<Handlers, PoolRoutes> = {
  async 'pool-put'({ params, body, person, correlation_id }, services) {
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
      const pool = await currentPool(tx, params.pool, 'for update of pool');
      if (pool && pool.driver !== body.driver)
        throw new ApiProblem('driver_fixed', `The pool ${params.pool} uses ${pool.driver}.`);
      const document = unmask(body, pool?.document);
      checkDocument(params.pool, document, pool?.document, person(), services);
      await checkSecrets(tx, document);
      const { changed, generation } = await declarePool(tx, params.pool, { ...document, name: params.pool }, at);
      if (!changed) return;
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'pool.declared',
          summary: `pool ${params.pool} is at generation ${generation}`,
          data: { pool: params.pool, generation },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return poolFor(person().role, await mustFindPool(params.pool, services));
  },
  'pool-get': async ({ params, person }, services) => poolFor(person().role, await mustFindPool(params.pool, services)),
  async 'pool-list'({ person }, services) {
    const { role } = person();
    return { items: (await listPools(services.db)).map((pool) => poolFor(role, pool)), next_cursor: null };
  },
  async 'pool-delete'({ params, person, correlation_id }, services) {
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
      if (!(await currentPool(tx, params.pool, 'for update of pool')))
        throw new ApiProblem('pool_not_found', `There is no pool named ${params.pool}.`);
      if (await isPoolInUse(tx, params.pool)) throw new ApiProblem('pool_in_use');
      await deletePool(tx, params.pool, at);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'pool.deleted',
          summary: `pool ${params.pool} was deleted`,
          data: { pool: params.pool },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return undefined;
  },
  async 'join-token-create'({ params, body, person, correlation_id }, services) {
    if (body?.no_expiry && body.ttl_seconds !== undefined)
      throw new ApiProblem('invalid_request', {
        detail: '/body/no_expiry excludes ttl_seconds.',
        errors: [{ path: '/body/no_expiry', message: 'excludes ttl_seconds' }],
      });
    const at = now(services.clock);
    const token = newSecret('swj');
    const row = {
      token_id: newTokenId(services.clock),
      pool: params.pool,
      expires_at: body?.no_expiry ? null : secondsLater(at, body?.ttl_seconds ?? defaultJoinSeconds),
      max_uses: body?.max_uses ?? null,
      created_at: at,
    };
    await services.db.transaction(async (tx) => {
      const pool = await currentPool(tx, params.pool, 'for share of pool');
      if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${params.pool}.`);
      if (services.drivers.get(pool.driver)?.launches)
        throw new ApiProblem(
          'pool_not_external',
          `The driver ${pool.driver} launches its machines itself; nothing joins the pool ${pool.name}.`,
        );
      await createJoinToken(tx, row, token);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'join_token.created',
          summary: `a join token for pool ${params.pool} was created`,
          data: { token_id: row.token_id, pool: params.pool },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return { ...joinTokenWire({ ...row, uses: 0, revoked_at: null }), token };
  },
  async 'join-token-list'({ params }, services) {
    await mustFindPool(params.pool, services);
    return { items: await listJoinTokens(services.db, params.pool), next_cursor: null };
  },
  async 'join-token-delete'({ params, person, correlation_id }, services) {
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
      if (!(await revokeJoinToken(tx, params.pool, params.id, at))) throw new ApiProblem('token_not_found');
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'join_token.revoked',
          summary: `join token ${params.id} was revoked`,
          data: { token_id: params.id, pool: params.pool },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return undefined;
  },
};
