/** Creates, lists and revokes the tokens of people, programs and relays. */
import { now, secondsLater } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { currentPool } from '../../store/rows/pools.ts';
import {
  createToken,
  isLastAdminToken,
  listTokens,
  lockAdminToken,
  relayPrefix,
  revokeToken,
  type TokenRow,
  tokenPrefix,
  tokenWire,
} from '../../store/rows/tokens.ts';
import { actorOf } from '../http/callers.ts';
import type { Handlers } from '../services.ts';

/** Only relay tokens have a pool, and they have no tenant. */
const scopeProblem = (key: 'pool' | 'tenant', isRequired: boolean) => {
  const message = isRequired ? 'must name a pool for a relay token' : 'is not valid for this role';
  return new ApiProblem('invalid_request', {
    detail: `/body/${key} ${message}.`,
    errors: [{ path: `/body/${key}`, message }],
  });
};

const scopeText = ({ pool, tenant }: Pick<TokenRow, 'pool' | 'tenant'>): string => {
  if (pool !== null) return `pool ${pool}`;
  return tenant === null ? 'all tenants' : `tenant ${tenant}`;
};

type TokenRoutes = 'token-create' | 'token-list' | 'token-delete';

export const tokenHandlers: Pick<Handlers, TokenRoutes> = {
  async 'token-create'({ body, person, correlation_id }, services) {
    const at = now(services.clock);
    const isRelay = body.role === 'relay';
    if (isRelay !== (body.pool !== undefined)) throw scopeProblem('pool', isRelay);
    if (isRelay && body.tenant !== undefined) throw scopeProblem('tenant', false);
    if (body.pool !== undefined && !(await currentPool(services.db, body.pool)))
      throw new ApiProblem('pool_not_found', `There is no pool named ${body.pool}.`);
    const token = newSecret(isRelay ? relayPrefix : tokenPrefix);
    const row = {
      token_id: newTokenId(services.clock),
      name: body.name,
      role: body.role,
      tenant: body.tenant ?? null,
      pool: body.pool ?? null,
      created_at: at,
      expires_at: body.ttl_seconds === undefined ? null : secondsLater(at, body.ttl_seconds),
    };
    await services.db.transaction(async (tx) => {
      await createToken(tx, row, token);
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'token.created',
          summary: `token ${row.name} (${row.role}, ${scopeText(row)}) was created`,
          data: { token_id: row.token_id, role: body.role, tenant: row.tenant, pool: row.pool },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return { ...tokenWire({ ...row, revoked_at: null, last_used_at: null }), token };
  },
  'token-list': async (_, services) => ({ items: await listTokens(services.db), next_cursor: null }),
  async 'token-delete'({ params, person, correlation_id }, services) {
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
      await lockAdminToken(tx);
      if (await isLastAdminToken(tx, params.id, at)) throw new ApiProblem('last_admin_token');
      if (!(await revokeToken(tx, params.id, at))) throw new ApiProblem('token_not_found');
      await recordEvidence(tx, [
        {
          at,
          layer: 'operator',
          kind: 'token.revoked',
          summary: `token ${params.id} was revoked`,
          data: { token_id: params.id },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return undefined;
  },
};
