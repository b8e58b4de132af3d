/**
 * The declaration of a route, read by the server, the OpenAPI document, the clients and the
 * authorization test.
 */
import type { Static, TSchema } from 'typebox';
import type { RouteTenants } from '../lifecycle/visibility.ts';
import type { ErrorCode } from './errors/errors.ts';
import type { Role } from './security/token.ts';

/**
 * Access of a route:
 * - public: no credential
 * - person: a token or session with at least `role`; `tenants: 'own'` admits tenant tokens, which
 *   see only their own data, `'none'` only tokens for all tenants
 * - agent: an instance credential; `fenced: 'heard'` also admits a fenced instance, whose reports
 *   are stored and then refused; `relays` also admits a relay token; `expired: 'within_grace'` also
 *   admits a credential that expired within the grace period
 * - body: the body holds the credential and the handler checks it: a token exchanged for a session,
 *   an enrolment or join token (or the instance credential as bearer), an instance credential per
 *   heartbeat of a batch (plus a relay token as bearer), or a signature by the key of an instance
 */
export type Access =
  | { kind: 'public' }
  | { kind: 'person'; role: Role; tenants: RouteTenants }
  | { kind: 'agent'; fenced?: 'heard'; relays?: true; expired?: 'within_grace' }
  | { kind: 'body'; credential: 'token' | 'enrolment' | 'instances' | 'key' };

/** A fault in the body with its own error code, because its remedy differs. */
export interface Refusal {
  /** JSON pointer into the body, with `*` for any list item. */
  at: string;
  /** The schema keywords that failed. */
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
  /**
   * A query that is too large for a URL. It changes nothing, so it writes no evidence and takes no
   * idempotency key.
   */
  reads_only?: boolean;
  /**
   * Starts something, or holds memory or a connection for long. Refused during a shortage, except a
   * read if only disk space is short.
   */
  new_work?: boolean;
  /**
   * A person may make this change after a restore, while the server only observes. Other changes
   * are refused with `restoration_open`.
   */
  after_restore?: boolean;
  /** The body may be omitted. */
  body_optional?: boolean;
  /** Content types accepted besides application/json. */
  extra_content_types?: readonly string[];
  /** The schema of all lines of an application/x-ndjson body. */
  lines?: TSchema;
  /** Converts a text/plain body to `body`; throws a problem for other text. */
  reads_text?: (text: string) => unknown;
  /** The first matching entry decides the error code. Any other fault is an `invalid_request`. */
  refusals?: readonly Refusal[];
  body_limit_bytes?: number;
  /** Bodies of this route share a bounded buffer; when it is full, the caller must retry later. */
  shares_log_intake?: boolean;
  success: number;
  /** Other statuses with the same `reply`, each with the condition. */
  also_answers?: Readonly<Record<number, string>>;
  /** Problems specific to this route; implied ones are in `openapi/problems.ts`. */
  problems?: readonly ErrorCode[];
  reply?: TSchema;
  /** The reply is a stream or text instead of JSON. */
  reply_type?: 'text/event-stream' | 'text/plain' | 'text/javascript';
}

/** Whether the route is refused while a restored server only observes. */
export const waitsForRestoration = ({ method, access, reads_only, after_restore }: RouteDeclaration): boolean =>
  access.kind === 'person' && method !== 'GET' && !reads_only && !after_restore;

type Of<S> = S extends TSchema ? Static<S> : undefined;
export type ParamsOf<R> = R extends { params: infer S } ? Of<S> : undefined;
export type QueryOf<R> = R extends { query: infer S } ? Of<S> : undefined;
export type BodyOf<R> = R extends { body: infer S } ? Of<S> : undefined;
export type ReplyOf<R> = R extends { reply: infer S } ? Of<S> : undefined;
