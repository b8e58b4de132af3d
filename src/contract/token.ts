/** Tokens of people and programs, and the console's session. */
import { type Static, Type } from 'typebox';
import { Name, nullable, PositiveSeconds, pageOf, strict, Timestamp } from './primitives.ts';
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
      Type.String({ ...Name, description: 'For the role relay, and only for it: whose machines it may speak for.' }),
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
