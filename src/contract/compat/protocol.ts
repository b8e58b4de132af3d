/**
 * Compatibility protocols of other fleets. Unknown fields are accepted, because their clients add
 * fields between versions; errors are sent as `{"error": "…"}`.
 */
import type { TSchema } from 'typebox';
import type { ErrorCode } from '../errors/errors.ts';

export const doors = ['agentfield', 'molecule'] as const;
export type Door = (typeof doors)[number];

/** Whether a registration returns a credential, which the machine then sends with every call. */
export const givesCredential: Record<Door, boolean> = { agentfield: false, molecule: true };

/**
 * Credentials that a call accepts:
 * - join: a join token, as bearer, as `X-API-Key` or in the address; valid for its pool
 * - instance: the credential issued at registration, as bearer
 * - either: the credential if one is sent, otherwise a join token
 */
export type DoorAccess = 'join' | 'instance' | 'either';

export interface DoorRoute {
  door: Door;
  method: 'GET' | 'POST' | 'PATCH';
  /**
   * The path after `/compat/{protocol}` and an optional join token; `{id}` is the client's name for
   * its node.
   */
  path: string;
  summary: string;
  access: DoorAccess;
  body?: TSchema;
  body_optional?: boolean;
  body_limit_bytes?: number;
  success: number;
  reply: TSchema;
  /** As in `RouteDeclaration`. */
  problems?: readonly ErrorCode[];
}

/** The first path segment of every call of a protocol; anything else in its place is a token. */
const roots: Record<Door, readonly string[]> = { agentfield: ['api'], molecule: ['registry', 'admin'] };

const inDoor = /^\/compat\/([^/?#]+)(?:\/([^/?#]*))?/;

export const doorOf = (url: string): Door | undefined => doors.find((door) => inDoor.exec(url)?.[1] === door);

/**
 * Removes the token from an address before routing, logs, traces and errors see it. Anything in the
 * token's place counts as one, even if the rest of the address is invalid.
 */
export function takeToken(url: string): { url: string; token: string | null } {
  const [matched, name, part] = inDoor.exec(url) ?? [];
  const door = doors.find((each) => each === name);
  if (!matched || !door || !part || roots[door].includes(part)) return { url, token: null };
  return { url: `/compat/${door}${url.slice(matched.length)}`, token: part };
}
