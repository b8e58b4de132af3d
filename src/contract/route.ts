/** What a route declares about itself. The server, the OpenAPI document, the clients and the authorization test read it. */
import type { Static, TSchema } from 'typebox';
import type { ErrorCode } from './errors/errors.ts';
import type { Role } from './security/token.ts';

/**
 * - public: no credential
 * - person: a token or session with at least `role`; `tenants: 'own'` means that a tenant's token is let in and sees only
 *   its own, `'none'` that only tokens for all tenants are
 * - agent: an instance credential; with `fenced: 'heard'` the handler is also asked for an instance that counts no more, keeps what it says
 *   as nobody's, and refuses it all the same; with `relays` the token of a relay is let in as well
 * - body: the credential is part of the body, and the handler judges it: a token that is exchanged for a session, an
 *   enrolment or join token (or the instance credential as bearer), or one instance credential for each beat of a batch (or the
 *   token of a relay as bearer)
 */
export type Access =
  | { kind: 'public' }
  | { kind: 'person'; role: Role; tenants: 'own' | 'none' }
  | { kind: 'agent'; fenced?: 'heard'; relays?: true; expired?: 'within_grace' }
  | { kind: 'body'; credential: 'token' | 'enrolment' | 'instances' };

/** A fault in the body that has a code of its own, because whoever sent it has something else to do about it. */
export interface Refusal {
  /** JSON pointer into the body, with `*` for any item of a list. */
  at: string;
  /** The keywords of the schema that were not met. */
  when: readonly ('enum' | 'minimum' | 'maximum')[];
  code: ErrorCode;
}

export interface RouteDeclaration {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With `{name}` for parameters. */
  path: string;
  summary: string;
  tag: string;
  access: Access;
  params?: TSchema;
  query?: TSchema;
  body?: TSchema;
  /** A question that does not fit an address: it changes nothing, so nobody is told of it and it has no key to be repeated under. */
  reads_only?: boolean;
  /** The body may be left out altogether. */
  body_optional?: boolean;
  /** Content types read besides application/json. */
  also_reads?: readonly string[];
  /** All lines of a body of application/x-ndjson. */
  lines?: TSchema;
  /** How a body of text/plain becomes what `body` describes; throws the problem of a text that is something else. */
  reads_text?: (text: string) => unknown;
  /** The first fault decides; one that is not here is an `invalid_request`. */
  refusals?: readonly Refusal[];
  body_limit_bytes?: number;
  /** Bodies of this route share a bounded room; who finds it full is told to come again. */
  shares_log_intake?: boolean;
  success: number;
  /** Other statuses that carry `reply`, and when. */
  also_answers?: Readonly<Record<number, string>>;
  /** Problems that only this route's own rules have; those that follow from the rest are in `openapi/problems.ts`. */
  problems?: readonly ErrorCode[];
  reply?: TSchema;
  /** The reply is a stream or a text, not JSON. */
  reply_type?: 'text/event-stream' | 'text/plain' | 'text/javascript';
}

type Of<S> = S extends TSchema ? Static<S> : undefined;
export type ParamsOf<R> = R extends { params: infer S } ? Of<S> : undefined;
export type QueryOf<R> = R extends { query: infer S } ? Of<S> : undefined;
export type BodyOf<R> = R extends { body: infer S } ? Of<S> : undefined;
export type ReplyOf<R> = R extends { reply: infer S } ? Of<S> : undefined;
