/**
 * Identifies the caller (a person by token or session cookie, an agent by its instance credential,
 * a relay by its token) and checks that it may call the route.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import type { Access } from '../../contract/route.ts';
import { roleAtLeast } from '../../contract/security/token.ts';
import { mayCall, tenantOnly, wholeFleet } from '../../lifecycle/visibility.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { findTokenBySecret, relayPrefix, type TokenRow } from '../../store/rows/tokens.ts';
import type { ApiServices } from '../services.ts';
import { findSession, sessionSecretOf } from '../sign-in/session-cookie.ts';
import type { Person, Relay } from './callers.ts';
import { requestedHost, sourceNetwork } from './source-address.ts';

const bearer = /^Bearer +([!-~]{1,2048})$/i;

/** The parts of a request that identify the caller and its address. */
export type RawRequest = Pick<IncomingMessage, 'headers' | 'socket'>;

export function bearerOf(request: Pick<RawRequest, 'headers'>): string | undefined {
  const header = request.headers.authorization;
  return header === undefined ? undefined : (bearer.exec(header)?.[1] ?? '');
}

function mustBeValid(token: TokenRow | undefined, at: Date): TokenRow {
  if (!token || token.revoked_at) throw new ApiProblem('token_unknown');
  if (token.expires_at && token.expires_at <= at) throw new ApiProblem('token_expired');
  return token;
}

function admit(token: TokenRow | undefined, services: ApiServices): Person {
  const { token_id, name, role, tenant, expires_at } = mustBeValid(token, now(services.clock));
  if (role === 'relay')
    throw new ApiProblem('role_insufficient', `The token ${name} belongs to a relay; it can only forward heartbeats.`);
  services.tokenUses.note(token_id);
  const visibility = tenant === null ? wholeFleet : tenantOnly(tenant);
  return { token_id, name, role, visibility, expires_at, session_id: null };
}

/**
 * A relay token has its own prefix, so that an agent's credential costs no look-up among tokens.
 */
const isRelayToken = (secret: string): boolean => secret.startsWith(`${relayPrefix}_`);

/** The token of this relay was valid and has expired or was revoked. */
export class RelayRefused extends ApiProblem {
  readonly relay: Relay;
  constructor(relay: Relay, { code, message }: ApiProblem) {
    super(code, message);
    this.relay = relay;
  }
}

async function admitRelay(secret: string, services: ApiServices): Promise<Relay> {
  const token = await findTokenBySecret(services.db, secret);
  if (!token || token.pool === null) throw new ApiProblem('token_unknown');
  const { token_id, name, pool, expires_at } = token;
  const relay = { token_id, name, pool, expires_at };
  try {
    mustBeValid(token, now(services.clock));
  } catch (error) {
    throw error instanceof ApiProblem ? new RelayRefused(relay, error) : error;
  }
  services.tokenUses.note(token_id);
  return relay;
}

/** Returns undefined if the caller sends no relay token. */
export async function identifyRelay(request: FastifyRequest, services: ApiServices): Promise<Relay | undefined> {
  const secret = bearerOf(request);
  return secret !== undefined && isRelayToken(secret) ? admitRelay(secret, services) : undefined;
}

/**
 * Returns null without a relay token, and for one that expired or was revoked: then the handler
 * reads the batch to see which machines are affected, and refuses the batch.
 */
async function identifyRelayBeforeBody(request: FastifyRequest, services: ApiServices): Promise<Relay | null> {
  try {
    return (await identifyRelay(request, services)) ?? null;
  } catch (error) {
    if (error instanceof RelayRefused) return null;
    throw error;
  }
}

/** An address that sends many unknown tokens has to wait. A valid token is always accepted. */
export async function personByToken(secret: string, request: FastifyRequest, services: ApiServices): Promise<Person> {
  const token = await findTokenBySecret(services.db, secret);
  try {
    return admit(token, services);
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.code !== 'token_unknown') throw error;
    const retry_after_seconds = services.tokenFailures.countFailure(sourceNetwork(request));
    throw retry_after_seconds === undefined ? error : new ApiProblem('too_many_failures', { retry_after_seconds });
  }
}

async function personBySession(secret: string, services: ApiServices): Promise<Person> {
  const session = await findSession(secret, services);
  const person = admit(session, services);
  const { session_id, session_expires_at } = session;
  const expires_at =
    person.expires_at && person.expires_at < session_expires_at ? person.expires_at : session_expires_at;
  return { ...person, session_id, expires_at };
}

async function identifyPerson(request: FastifyRequest, services: ApiServices): Promise<Person> {
  const secret = bearerOf(request);
  if (secret !== undefined) {
    const check = () => personByToken(secret, request, services);
    return request.operation === 'metrics-get' ? services.scrapers.admit(secret, check) : check();
  }
  const cookie = sessionSecretOf(request, services);
  if (cookie) return personBySession(cookie, services);
  throw new ApiProblem('token_missing');
}

const expiredProblem = () => new ApiProblem('credential_expired');

/**
 * Refuses an expired credential. The refusal is recorded, so that a verdict on the machine's
 * silence can name the expired credential as the cause.
 */
export function refuseExpired(session: AgentSession, relay: Relay | null, services: ApiServices): void {
  if (!services.credential_age.isExpired(session.expires_seconds)) return;
  services.reportRefusedBeat({ session, relay, code: 'credential_expired' });
  throw expiredProblem();
}

async function identifyAgent(
  request: FastifyRequest,
  { fenced, expired }: Extract<Access, { kind: 'agent' }>,
  services: ApiServices,
): Promise<AgentSession> {
  const credential = bearerOf(request);
  if (credential === undefined) throw new ApiProblem('token_missing', 'This call needs an instance credential.');
  const at = now(services.clock);
  const session = await services.sessions.find(credential, at);
  if (!session) throw new ApiProblem('credential_unknown');
  const { fence } = session;
  if (fence.kind === 'fenced' && (fenced !== 'heard' || fence.heard_until === null || fence.heard_until <= at))
    throw fencedProblem(fence.reason);
  if (expired !== 'within_grace') refuseExpired(session, null, services);
  else if (session.expires_seconds !== 0 && !services.credential_age.mayRotate(session.expires_seconds))
    throw expiredProblem();
  return session;
}

export async function authorize(request: FastifyRequest, access: Access, services: ApiServices): Promise<void> {
  switch (access.kind) {
    case 'public':
      return;
    case 'body':
      if (access.credential === 'instances') request.relay = await identifyRelayBeforeBody(request, services);
      return;
    case 'agent':
      if (access.relays) request.relay = (await identifyRelay(request, services)) ?? null;
      if (!request.relay) request.agent_session = await identifyAgent(request, access, services);
      return;
    case 'person': {
      const person = await identifyPerson(request, services);
      request.person = person;
      if (!roleAtLeast(person.role, access.role))
        throw new ApiProblem(
          'role_insufficient',
          `This call needs the role ${access.role}; the token ${person.name} has ${person.role}.`,
        );
      if (!mayCall(person.visibility, access.tenants)) throw new ApiProblem('scope_insufficient');
      const secret = bearerOf(request);
      if (request.operation === 'metrics-get' && secret !== undefined) services.scrapers.remember(secret, person);
    }
  }
}

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]', '::1']);
const hostName = (host: string) => host.replace(/:\d+$/, '').toLowerCase();

/**
 * Keeps foreign pages from using a person's session. Refuses other origins and, on a server for
 * localhost only, host names that merely resolve to the server (DNS rebinding).
 */
export function checkOrigin(request: RawRequest, { settings }: Pick<ApiServices, 'settings'>): void {
  const { loopback_only, proxies } = settings;
  const host = requestedHost(request, proxies);
  if (loopback_only && !loopbackNames.has(hostName(host)))
    throw new ApiProblem(
      'origin_refused',
      `This server only serves localhost, not ${host.slice(0, 253) || 'a request without Host'}.`,
    );
  const origin = request.headers.origin;
  if (origin === undefined || origin === 'null') {
    if (origin === 'null') throw new ApiProblem('origin_refused');
    return;
  }
  if (!URL.canParse(origin) || new URL(origin).host !== host) throw new ApiProblem('origin_refused');
}
