/** Which callers of a foreign protocol are admitted: by a join token of the pool, or by the credential of a registration. */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { now } from '../../base/clock.ts';
import { type Protocol, type ProtocolAccess, takeToken } from '../../contract/compat/protocol.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { expiredProblem } from '../../store/agents/joins/token-validity.ts';
import { bearerOf, fencedProblem } from '../http/auth.ts';
import type { ProtocolServices } from './calls.ts';
import type { JoinGrant } from './join-grants.ts';
import { namesFor } from './names.ts';

const inAddress = new WeakMap<IncomingMessage, string>();

/** Before a request is routed: from here on its address has no token in it. */
export function rewriteUrl(request: IncomingMessage): string {
  const { url, token } = takeToken(request.url ?? '/');
  if (token !== null) inAddress.set(request, token);
  return url;
}

export interface Admitted {
  session: AgentSession | null;
  joined: (JoinGrant & { secret: string }) | null;
}

const isCredential = (secret: string) => secret.startsWith('swc_');

/** One that came in by another protocol, or speaks our own protocol, is not known here. */
export function mustCount(session: AgentSession | undefined, protocol: Protocol): AgentSession {
  if (!session || session.protocol_client?.protocol !== protocol) throw new ApiProblem('credential_unknown');
  if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
  return session;
}

function joinSecretOf(request: FastifyRequest): string | undefined {
  const key = request.headers['x-api-key'];
  const bearer = bearerOf(request);
  return (
    inAddress.get(request.raw) ??
    (typeof key === 'string' && key !== '' ? key : undefined) ??
    (bearer === undefined || isCredential(bearer) ? undefined : bearer)
  );
}

/** A machine whose token ended still beats: its silence is then explained by the token, and not held against it. */
async function tellUnheard(
  request: FastifyRequest,
  protocol: Protocol,
  { token_id, pool, expires_at, revoked_at }: JoinGrant,
  state: 'expired' | 'revoked',
  services: ProtocolServices,
): Promise<void> {
  const { id } = (request.params ?? {}) as { id?: string };
  // Workspaces of molecule beat with a token of their own.
  if (protocol !== 'agentfield' || id === undefined || request.method === 'GET') return;
  const found = await Promise.all(namesFor(id).map((name) => services.sessions.findByName({ protocol, pool, name })));
  const session = found.find((each) => each !== undefined);
  // A token that did not let the machine in says nothing about it.
  if (session?.protocol_client?.join_token_id !== token_id || session.fence.kind !== 'none') return;
  const code = state === 'expired' ? 'join_token_expired' : 'join_token_invalid';
  const ended_at = (state === 'expired' ? expires_at : revoked_at) ?? now(services.clock);
  services.tellRefusedBeat({ session, code, join_token_id: token_id, ended_at });
}

export async function admit(
  request: FastifyRequest,
  { protocol, access }: { protocol: Protocol; access: ProtocolAccess },
  services: ProtocolServices,
): Promise<Admitted> {
  const bearer = bearerOf(request);
  const secret = access === 'instance' ? undefined : joinSecretOf(request);
  if (access !== 'join' && bearer !== undefined && (access === 'instance' || isCredential(bearer))) {
    const found = await services.sessions.find(bearer, now(services.clock));
    // A client that still shows the credential of an instance that was replaced may begin anew, if it has a join token as well.
    const isOver = !found || found.fence.kind === 'fenced';
    if (!isOver || secret === undefined) {
      const session = mustCount(found, protocol);
      request.agent_session = session;
      return { session, joined: null };
    }
  }
  if (access === 'instance')
    throw new ApiProblem('token_missing', 'Send the auth_token that the registration gave, as bearer.');
  if (secret === undefined)
    throw new ApiProblem('token_missing', 'A join token is needed: as bearer, as X-API-Key or in the address.');
  const found = await services.grants.find(secret, now(services.clock));
  if (!found) throw new ApiProblem('join_token_invalid');
  const { grant, state } = found;
  if (state === 'valid') return { session: null, joined: { ...grant, secret } };
  await tellUnheard(request, protocol, grant, state, services);
  throw state === 'expired'
    ? expiredProblem(grant)
    : new ApiProblem('join_token_invalid', 'The join token was revoked.');
}
