/** The types of handlers for foreign protocols: their calls and their services. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CorrelationId } from '../../base/ids.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import type { ProtocolOperation } from '../../contract/compat/routes.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { ProbeAnswer } from '../../lifecycle/joins/contest.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import type { RateLimitedNotices } from '../http/rate-limited-notices.ts';
import type { ApiServices } from '../services.ts';
import type { JoinGrant, JoinGrants } from './join-grants.ts';
import type { Paces } from './paces.ts';

export interface ProtocolServices extends ApiServices {
  grants: JoinGrants;
  /** Probes whether the former address of a name still answers. */
  probeFormerAddress: ProbeFormerAddress;
  paces: Paces;
  /** Limits how often the same report of a client is recorded. */
  notices: RateLimitedNotices;
}

export interface ProtocolCall {
  /** The client's name for its node, from the address. */
  id: string;
  /** Matches the schema of the route; may have extra fields. */
  body: Record<string, unknown>;
  correlation_id: CorrelationId;
  /** The caller's join token and its pool. Throws if the call was admitted by a credential. */
  grant(): JoinGrant & { secret: string };
  /** The session of the credential, if the call was admitted by one. */
  session: AgentSession | null;
  request: FastifyRequest;
  reply: FastifyReply;
}

export type ProtocolHandler = (call: ProtocolCall, services: ProtocolServices) => Promise<object>;
export type ProtocolHandlers<D extends Protocol> = {
  [Name in ProtocolOperation as Name extends `${D}-${string}` ? Name : never]: ProtocolHandler;
};

export type ProbeFormerAddress = (
  endpoint: string,
  settings: PoolDocument['probe'],
  join_token_id: string,
) => Promise<ProbeAnswer>;
