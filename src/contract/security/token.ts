/** Tokens of people and programs, and the console's session. */
import { type Static, Type } from 'typebox';
import { Name, nullable, PositiveSeconds, pageOf, paging, strict, Timestamp } from '../primitives.ts';
import { roles, tokenRoles } from './roles.ts';

export type Role = (typeof roles)[number];
export const Role = Type.Enum([...roles]);

export type TokenRole = (typeof tokenRoles)[number];
const TokenRole = Type.Enum([...tokenRoles]);

export const roleAtLeast = (role: Role, needed: Role) => roles.indexOf(role) >= roles.indexOf(needed);

export const TokenCreate = Type.Object(
  {
    name: Name,
    role: TokenRole,
    tenant: Type.Optional(Name),
    pool: Type.Optional(
      Type.String({
        ...Name,
        description: 'Only for the role relay: the pool whose machines it may send heartbeats for.',
      }),
    ),
    ttl_seconds: Type.Optional(PositiveSeconds),
  },
  { ...strict, $id: 'TokenCreate' },
);
export const Token = Type.Object(
  {
    token_id: Type.String(),
    name: Type.String(),
    role: TokenRole,
    tenant: nullable(Type.String()),
    pool: nullable(Type.String()),
    created_at: Timestamp,
    expires_at: nullable(Timestamp),
    last_used_at: nullable(
      Type.String({ ...Timestamp, description: 'Accurate to the minute; null if the token was never used.' }),
    ),
    token: Type.Optional(Type.String({ description: 'Shown once, when it is made.' })),
  },
  { $id: 'Token' },
);
export type Token = Static<typeof Token>;
export const TokenPage = pageOf(Token, 'TokenPage');

export const SessionCreate = Type.Object(
  { token: Type.String({ minLength: 1, maxLength: 512 }) },
  { ...strict, $id: 'SessionCreate' },
);
export const Session = Type.Object(
  {
    token_id: Type.String(),
    name: Type.String(),
    role: Role,
    tenant: nullable(Type.String()),
    expires_at: nullable(Timestamp),
    installation_id: Type.String(),
    version: Type.String(),
  },
  { $id: 'Session' },
);
export type Session = Static<typeof Session>;

export const ConsoleSession = Type.Object(
  {
    session_id: Type.String(),
    token_id: Type.String({ description: 'The token that opened the session; revoking the token ends the session.' }),
    name: Type.String({ description: "The token's name." }),
    role: Role,
    tenant: nullable(Type.String()),
    created_at: Timestamp,
    last_used_at: Type.String({ ...Timestamp, description: 'Accurate to the minute.' }),
    expires_at: Type.String({ ...Timestamp, description: 'The session ends at this time even if it is used.' }),
    idle_expires_at: Type.String({
      ...Timestamp,
      description: 'The session ends at this time unless it is used before.',
    }),
    address: nullable(Type.String({ description: 'The address that the sign-in came from.' })),
    user_agent: nullable(Type.String()),
    current: Type.Boolean({ description: 'Whether this is the session of this request.' }),
  },
  { $id: 'ConsoleSession' },
);
export type ConsoleSession = Static<typeof ConsoleSession>;
export const ConsoleSessionPage = pageOf(ConsoleSession, 'ConsoleSessionPage');
export const ConsoleSessionQuery = Type.Object(paging, { ...strict, $id: 'ConsoleSessionQuery' });
