/**
 * Front doors for fleets that speak another protocol: their calls, in their words. Unknown fields are taken, because their clients
 * add fields between versions; what is refused is refused as `{"error": "…"}`.
 */
import type { TSchema } from 'typebox';
import type { ErrorCode } from '../errors/errors.ts';

export const doors = ['agentfield', 'molecule'] as const;
export type Door = (typeof doors)[number];

/** Whether a registration is answered with a credential, which the machine then shows with every call. */
export const givesCredential: Record<Door, boolean> = { agentfield: false, molecule: true };

/**
 * - join: a join token, as bearer, as `X-API-Key` or in the address; it is good for the nodes of its pool
 * - instance: the credential that the registration gave, as bearer
 * - either: the credential where one is shown, or else a join token
 */
export type DoorAccess = 'join' | 'instance' | 'either';

export interface DoorRoute {
  door: Door;
  method: 'GET' | 'POST' | 'PATCH';
  /** What follows `/compat/{door}`, or the join token after it; `{id}` is what their client calls its node. */
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

/** The first part of every path at a door; anything else that stands there is a token. */
const roots: Record<Door, readonly string[]> = { agentfield: ['api'], molecule: ['registry', 'admin'] };

const inDoor = /^\/compat\/([^/?#]+)(?:\/([^/?#]*))?/;

export const doorOf = (url: string): Door | undefined => doors.find((door) => inDoor.exec(url)?.[1] === door);

/**
 * Takes the token out of an address before anything else sees it: what routes, logs, traces and errors are told is the rest.
 * Whatever stands where a token may stand is one, also where the rest of the address makes no sense.
 */
export function takeToken(url: string): { url: string; token: string | null } {
  const [matched, name, part] = inDoor.exec(url) ?? [];
  const door = doors.find((each) => each === name);
  if (!matched || !door || !part || roots[door].includes(part)) return { url, token: null };
  return { url: `/compat/${door}${url.slice(matched.length)}`, token: part };
}
