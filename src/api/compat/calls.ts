/** What a handler of a foreign protocol receives. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CorrelationId } from '../../base/ids.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import type { ProtocolOperation } from '../../contract/compat/routes.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { ProbeAnswer } from '../../lifecycle/joins/contest.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import type { ToldOnce } from '../http/rate-limited-notices.ts';
import type { ApiServices } from '../services.ts';
import type { JoinGrant, JoinGrants } from './join-grants.ts';
import type { Paces } from './paces.ts';

export interface ProtocolServices extends ApiServices {
  grants: JoinGrants;
  /** Whether the former address of a name still answers. */
  askFormer: AskFormer;
  paces: Paces;
  /** What their clients say again and again is told once. */
  toldOnce: ToldOnce;
}

export interface ProtocolCall {
  /** What the address calls the node. */
  id: string;
  /** Fits the schema of its route, and may have any field besides. */
  body: Record<string, unknown>;
  correlation_id: CorrelationId;
  /** The pool that the caller's join token opens, and the token itself; asking for it where a credential was shown is a programmer's error. */
  joined(): JoinGrant & { secret: string };
  /** Whose credential was shown, if one was. */
  session: AgentSession | null;
  request: FastifyRequest;
  reply: FastifyReply;
}

export type ProtocolHandler = (call: ProtocolCall, services: ProtocolServices) => Promise<object>;
export type ProtocolHandlers<D extends Protocol> = {
  [Name in ProtocolOperation as Name extends `${D}-${string}` ? Name : never]: ProtocolHandler;
};

export type AskFormer = (
  endpoint: string,
  settings: PoolDocument['probe'],
  join_token_id: string,
) => Promise<ProbeAnswer>;
