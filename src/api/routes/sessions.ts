/** Handles the console's sessions: sign in, sign out, list and revoke. */
import { now } from '../../base/clock.ts';
import type { Session } from '../../contract/security/token.ts';
import { listSessions, sessionWire } from '../../store/rows/sign-in/sessions.ts';
import { personByToken } from '../http/auth.ts';
import type { Person } from '../http/callers.ts';
import { readPageQuery } from '../http/paging.ts';
import { personWriter } from '../limits/quotas/writers.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { clearSessionCookies, endSession, idleCutoff, openSession } from '../sign-in/session-cookie.ts';

const sessionReply = (person: Person, expires_at: Date | null, services: ApiServices): Session => ({
  token_id: person.token_id,
  name: person.name,
  role: person.role,
  tenant: person.visibility.kind === 'fleet' ? null : person.visibility.tenant,
  expires_at: expires_at?.toISOString() ?? null,
  installation_id: services.installation.installation_id,
  version: services.settings.version,
});

type SessionRoutes = 'session-create' | 'session-get' | 'session-delete' | 'session-list' | 'session-revoke';

export const sessionHandlers: Pick<Handlers, SessionRoutes> = {
  async 'session-create'({ body, request, reply }, services) {
    const person = await personByToken(body.token, request, services);
    services.rates.admitKnown('sign_in', person.token_id, 'session-create');
    // The write is charged but not refused: the request rate limits sign-ins, and a tenant over its
    // write limit may still sign in.
    const db = services.writeLimits.database(services.db, personWriter(person));
    return sessionReply(person, await openSession(person, request, reply, { ...services, db }), services);
  },
  'session-get': async ({ person }, services) => sessionReply(person(), person().expires_at, services),
  async 'session-delete'({ person, correlation_id, reply }, services) {
    const { session_id } = person();
    if (session_id !== null)
      await endSession(session_id, { by: person(), cause: 'sign_out', correlation_id }, services);
    clearSessionCookies(reply);
    return undefined;
  },
  async 'session-list'({ query, person }, services) {
    const { after, limit } = readPageQuery(query);
    const { token_id, role, visibility, session_id } = person();
    const at = now(services.clock);
    const rows = await listSessions(services.db, {
      token_id: role === 'admin' && visibility.kind === 'fleet' ? null : token_id,
      after,
      limit,
      now: at,
      idleCutoff: idleCutoff(at, services),
    });
    const items = rows
      .slice(0, limit)
      .map((row) => sessionWire(row, session_id, services.settings.session_idle_seconds));
    return { items, next_cursor: rows.length > limit ? (items.at(-1)?.session_id ?? null) : null };
  },
  async 'session-revoke'({ params, person, correlation_id, reply }, services) {
    await endSession(params.id, { by: person(), cause: 'revocation', correlation_id }, services);
    if (params.id === person().session_id) clearSessionCookies(reply);
    return undefined;
  },
};
