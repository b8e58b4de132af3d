/** What a handler at a front door is given. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CorrelationId } from '../../base/ids.ts';
import type { Door } from '../../contract/compat/protocol.ts';
import type { DoorOperation } from '../../contract/compat/routes.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { Answered } from '../../lifecycle/joins/contest.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import type { ToldOnce } from '../http/rate-limited.ts';
import type { ApiServices } from '../services.ts';
import type { JoinGrant, JoinGrants } from './join-grants.ts';
import type { Paces } from './paces.ts';

export interface DoorServices extends ApiServices {
  grants: JoinGrants;
  /** Whether the former address of a name still answers. */
  askFormer: AskFormer;
  paces: Paces;
  /** What their clients say again and again is told once. */
  toldOnce: ToldOnce;
}

export interface DoorCall {
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

export type DoorHandler = (call: DoorCall, services: DoorServices) => Promise<object>;
export type DoorHandlers<D extends Door> = {
  [Name in DoorOperation as Name extends `${D}-${string}` ? Name : never]: DoorHandler;
};

export type AskFormer = (endpoint: string, settings: PoolDocument['probe'], join_token_id: string) => Promise<Answered>;
