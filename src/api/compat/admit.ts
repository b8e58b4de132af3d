/**
 * Admits callers of a foreign protocol: by a join token of the pool, or by the credential that a
 * registration returned.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { now } from '../../base/clock.ts';
import { type Protocol, type ProtocolAccess, takeToken } from '../../contract/compat/protocol.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import { expiredProblem } from '../../store/agents/joins/token-validity.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { bearerOf } from '../http/auth.ts';
import type { ProtocolServices } from './calls.ts';
import type { JoinGrant } from './join-grants.ts';
import { namesFor } from './names.ts';

const tokensInUrl = new WeakMap<IncomingMessage, string>();

/** Runs before routing; removes a join token from the URL. */
export function rewriteUrl(request: IncomingMessage): string {
  const { url, token } = takeToken(request.url ?? '/');
  if (token !== null) tokensInUrl.set(request, token);
  return url;
}

export interface Admission {
  session: AgentSession | null;
  grant: (JoinGrant & { secret: string }) | null;
}

const isCredential = (secret: string) => secret.startsWith('swc_');

/** Refuses our own agents, clients of another protocol and fenced instances. */
export function requireSession(session: AgentSession | undefined, protocol: Protocol): AgentSession {
  if (!session || session.protocol_client?.protocol !== protocol) throw new ApiProblem('credential_unknown');
  if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
  return session;
}

function joinSecretOf(request: FastifyRequest): string | undefined {
  const key = request.headers['x-api-key'];
  const bearer = bearerOf(request);
  return (
    tokensInUrl.get(request.raw) ??
    (typeof key === 'string' && key !== '' ? key : undefined) ??
    (bearer === undefined || isCredential(bearer) ? undefined : bearer)
  );
}

/**
 * Records a heartbeat that is refused because its join token has expired or was revoked, so that a
 * verdict on the machine's silence can name the token as the cause.
 */
async function reportRefusedHeartbeat(
  request: FastifyRequest,
  protocol: Protocol,
  { token_id, pool, expires_at, revoked_at }: JoinGrant,
  state: 'expired' | 'revoked',
  services: ProtocolServices,
): Promise<void> {
  const { id } = (request.params ?? {}) as { id?: string };
  // molecule workspaces send heartbeats with a credential of their own.
  if (protocol !== 'agentfield' || id === undefined || request.method === 'GET') return;
  const sessions = await Promise.all(
    namesFor(id).map((name) => services.sessions.findByName({ protocol, pool, name })),
  );
  const session = sessions.find((each) => each !== undefined);
  // A token that the machine did not join with proves nothing about the machine.
  if (session?.protocol_client?.join_token_id !== token_id || session.fence.kind !== 'none') return;
  const code = state === 'expired' ? 'join_token_expired' : 'join_token_invalid';
  const ended_at = (state === 'expired' ? expires_at : revoked_at) ?? now(services.clock);
  services.reportRefusedBeat({ session, code, join_token_id: token_id, ended_at });
}

export async function admit(
  request: FastifyRequest,
  { protocol, access }: { protocol: Protocol; access: ProtocolAccess },
  services: ProtocolServices,
): Promise<Admission> {
  const bearer = bearerOf(request);
  const secret = access === 'instance' ? undefined : joinSecretOf(request);
  if (access !== 'join' && bearer !== undefined && (access === 'instance' || isCredential(bearer))) {
    const candidate = await services.sessions.find(bearer, now(services.clock));
    // A client with the credential of a replaced instance may start over if it also sends a join
    // token.
    const isUsable = candidate !== undefined && candidate.fence.kind !== 'fenced';
    if (isUsable || secret === undefined) {
      const session = requireSession(candidate, protocol);
      request.agent_session = session;
      return { session, grant: null };
    }
  }
  if (access === 'instance')
    throw new ApiProblem('token_missing', 'Send the auth_token of the registration as a bearer token.');
  if (secret === undefined)
    throw new ApiProblem('token_missing', 'Send a join token: as a bearer token, as X-API-Key or in the URL.');
  const lookup = await services.grants.find(secret, now(services.clock));
  if (!lookup) throw new ApiProblem('join_token_invalid');
  const { grant, state } = lookup;
  if (state === 'valid') return { session: null, grant: { ...grant, secret } };
  await reportRefusedHeartbeat(request, protocol, grant, state, services);
  throw state === 'expired'
    ? expiredProblem(grant)
    : new ApiProblem('join_token_invalid', 'The join token was revoked.');
}
