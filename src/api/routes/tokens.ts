/** Tokens of people and programs, and the console's session. */
import { now, secondsLater } from '../../base/clock.ts';
import { newTokenId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors.ts';
import type { Session } from '../../contract/token.ts';
import { recordEvidence } from '../../store/evidence.ts';
import { newSecret } from '../../store/instances.ts';
import { createToken, listTokens, revokeToken, tokenWire } from '../../store/tokens.ts';
import { openSession, personByToken, sessionCookie } from '../auth.ts';
import { type ApiServices, actorOf, type Handlers, type Person } from '../services.ts';

const sessionWire = (person: Person, expires_at: Date | null, services: ApiServices): Session => ({
  token_id: person.token_id,
  name: person.name,
  role: person.role,
  tenant: person.tenant,
  expires_at: expires_at?.toISOString() ?? null,
  installation_id: services.installation.installation_id,
  version: services.settings.version,
});

type TokenRoutes = 'session-create' | 'session-get' | 'session-delete' | 'token-create' | 'token-list' | 'token-delete';

export const tokenHandlers: Pick<Handlers, TokenRoutes> = {
  async 'session-create'({ body, reply }, services) {
    const person = await personByToken(body.token, services);
    return sessionWire(person, openSession(person, reply, services), services);
  },
  'session-get': async ({ person }, services) => sessionWire(person(), person().expires_at, services),
  async 'session-delete'({ reply }) {
    reply.clearCookie(sessionCookie, { path: '/' });
    return undefined;
  },
  async 'token-create'({ body, person, correlation_id }, services) {
    const at = now(services.clock);
    const token = newSecret('swt');
    const row = {
      token_id: newTokenId(services.clock),
      name: body.name,
      role: body.role,
      tenant: body.tenant ?? null,
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
          summary: `token ${body.name} (${body.role}) was made`,
          data: { token_id: row.token_id, role: body.role, tenant: row.tenant },
          actor: actorOf(person()),
          correlation_id,
        },
      ]);
    });
    return { ...tokenWire({ ...row, revoked_at: null }), token };
  },
  'token-list': async (_, services) => ({ items: await listTokens(services.db), next_cursor: null }),
  async 'token-delete'({ params, person, correlation_id }, services) {
    const at = now(services.clock);
    await services.db.transaction(async (tx) => {
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
