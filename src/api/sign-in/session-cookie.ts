/**
 * Handles the console's session cookie. The cookie is a random secret; the session's row in the
 * store holds the owner and the expiry.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { now, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import {
  createSession,
  deleteSession,
  type FoundSession,
  findSessionBySecret,
  touchSession,
} from '../../store/rows/sign-in/sessions.ts';
import { actorOf, type Person } from '../http/callers.ts';
import { sourceAddress } from '../http/source-address.ts';
import type { ApiServices } from '../services.ts';

const plainName = 'slipway_session';
/** Browsers accept a `__Host-` cookie only with `Secure`, `Path=/` and no `Domain`. */
const tlsName = `__Host-${plainName}`;

const nameFor = ({ settings }: Pick<ApiServices, 'settings'>) => (settings.secure_cookies ? tlsName : plainName);

export const sessionSecretOf = (request: FastifyRequest, services: ApiServices): string | undefined =>
  request.cookies[nameFor(services)];

const maxTouchIntervalSeconds = 60;

/**
 * Writes the last use at most once a minute, or once per quarter of the idle limit if that is
 * shorter.
 */
async function noteUse({ session_id, session_used_at }: FoundSession, at: Date, services: ApiServices): Promise<void> {
  const everySeconds = Math.min(maxTouchIntervalSeconds, services.settings.session_idle_seconds / 4);
  if (secondsLater(session_used_at, everySeconds) <= at) await touchSession(services.db, session_id, at);
}

export const idleCutoff = (at: Date, { settings }: Pick<ApiServices, 'settings'>): Date =>
  secondsLater(at, -settings.session_idle_seconds);

/**
 * Reads the row for each request, so that a session that another replica ended is refused here too.
 */
export async function findSession(secret: string, services: ApiServices): Promise<FoundSession> {
  const session = await findSessionBySecret(services.db, secret);
  if (!session) throw new ApiProblem('token_unknown', 'This session has ended; sign in again.');
  const at = now(services.clock);
  if (session.session_expires_at <= at || session.session_used_at <= idleCutoff(at, services))
    throw new ApiProblem('token_expired', 'The session has expired; sign in again.');
  await noteUse(session, at, services);
  return session;
}

/** Signs in: creates a session and sets its secret as a cookie. */
export async function openSession(
  person: Person,
  request: FastifyRequest,
  reply: FastifyReply,
  services: ApiServices,
): Promise<Date> {
  const at = now(services.clock);
  const maxEnd = secondsLater(at, services.settings.session_max_seconds);
  const expires_at = person.expires_at && person.expires_at < maxEnd ? person.expires_at : maxEnd;
  const address = sourceAddress(request);
  const { secret } = await services.db.transaction(async (tx) => {
    const session = await createSession(tx, services.clock, {
      token_id: person.token_id,
      created_at: at,
      expires_at,
      address,
      user_agent: request.headers['user-agent'] ?? null,
    });
    const fact = { at, layer: 'operator', actor: actorOf(person), correlation_id: request.correlation_id } as const;
    await recordEvidence(tx, [
      {
        ...fact,
        kind: 'session.opened',
        summary: `${person.name} signed in`,
        data: { session_id: session.session_id, token_id: person.token_id, address },
      },
      ...session.evicted.map((session_id) => ({
        ...fact,
        kind: 'session.ended' as const,
        summary: `a session of ${person.name} was replaced by a newer one`,
        data: { session_id, token_id: person.token_id, cause: 'session_limit' },
      })),
    ]);
    return session;
  });
  reply.setCookie(nameFor(services), secret, {
    httpOnly: true,
    sameSite: 'strict',
    secure: services.settings.secure_cookies,
    path: '/',
    expires: expires_at,
  });
  return expires_at;
}

/** Clears both names, since TLS may have been switched on or off after the cookie was set. */
export function clearSessionCookies(reply: FastifyReply): void {
  reply.clearCookie(plainName, { path: '/' });
  reply.clearCookie(tlsName, { path: '/', secure: true });
}

/** Ends a session at once on every replica. The recorded fact closes its open streams. */
export async function endSession(
  id: string,
  details: { by: Person; cause: 'sign_out' | 'revocation'; correlation_id: FastifyRequest['correlation_id'] },
  services: ApiServices,
): Promise<void> {
  const { by, cause, correlation_id } = details;
  const isFleetAdmin = by.role === 'admin' && by.visibility.kind === 'fleet';
  await services.db.transaction(async (tx) => {
    const session = await deleteSession(tx, id, isFleetAdmin ? null : by.token_id);
    if (!session) throw new ApiProblem('session_not_found');
    await recordEvidence(tx, [
      {
        at: now(services.clock),
        layer: 'operator',
        kind: 'session.ended',
        summary: cause === 'sign_out' ? `${by.name} signed out` : `${by.name} ended the session ${id}`,
        data: { session_id: id, token_id: session.token_id, cause },
        actor: actorOf(by),
        correlation_id,
      },
    ]);
  });
}
