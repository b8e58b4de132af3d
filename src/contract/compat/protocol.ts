/**
 * The wire protocols of other fleets. Unknown fields are accepted, because clients of these
 * protocols add fields between versions. Errors are sent as `{"error": "…", "code": "…"}`.
 */
import type { TSchema } from 'typebox';
import type { ErrorCode } from '../errors/errors.ts';

export const protocols = ['agentfield', 'molecule'] as const;
export type Protocol = (typeof protocols)[number];

/** Whether a registration returns a credential, which the machine then sends with every call. */
export const givesCredential: Record<Protocol, boolean> = { agentfield: false, molecule: true };

/**
 * Credentials that a call accepts:
 * - join: a join token, as bearer, as `X-API-Key` or in the URL; valid for its pool
 * - instance: the credential issued at registration, as bearer
 * - either: the credential if one is sent, otherwise a join token
 */
export type ProtocolAccess = 'join' | 'instance' | 'either';

export interface ProtocolRoute {
  protocol: Protocol;
  method: 'GET' | 'POST' | 'PATCH';
  /**
   * The path after `/compat/{protocol}` and an optional join token; `{id}` is the client's name for
   * its node.
   */
  path: string;
  summary: string;
  access: ProtocolAccess;
  body?: TSchema;
  body_optional?: boolean;
  body_limit_bytes?: number;
  success: number;
  reply: TSchema;
  /** As in `RouteDeclaration`. */
  problems?: readonly ErrorCode[];
}

/** The first path segment of every call of a protocol; anything else in its place is a token. */
const roots: Record<Protocol, readonly string[]> = { agentfield: ['api'], molecule: ['registry', 'admin'] };

const protocolPrefix = /^\/compat\/([^/?#]+)(?:\/([^/?#]*))?/;

export const protocolOf = (url: string): Protocol | undefined =>
  protocols.find((protocol) => protocolPrefix.exec(url)?.[1] === protocol);

/**
 * Removes the token from a URL, so that routing, logs, traces and errors never see it. Any text in
 * the place of the token counts as a token, even if the URL is otherwise invalid.
 */
export function takeToken(url: string): { url: string; token: string | null } {
  const [matched, name, part] = protocolPrefix.exec(url) ?? [];
  const protocol = protocols.find((each) => each === name);
  if (!matched || !protocol || !part || roots[protocol].includes(part)) return { url, token: null };
  return { url: `/compat/${protocol}${url.slice(matched.length)}`, token: part };
}
