/** Routes of tokens and console sessions. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { admin, viewer } from '../security/access.ts';
import * as token from '../security/token.ts';

export const tokenRoutes = {
  'session-create': {
    method: 'POST',
    path: '/v1/session',
    summary: 'Exchange a token for a session cookie',
    tag: 'session',
    access: { kind: 'body', credential: 'token' },
    body: token.SessionCreate,
    body_limit_bytes: 4096,
    success: 201,
    reply: token.Session,
  },
  'session-get': {
    method: 'GET',
    path: '/v1/session',
    summary: 'Who I am',
    tag: 'session',
    access: viewer,
    success: 200,
    reply: token.Session,
  },
  'session-delete': {
    method: 'DELETE',
    path: '/v1/session',
    summary: 'Sign out',
    tag: 'session',
    access: viewer,
    after_restore: true,
    success: 204,
  },
  'session-list': {
    method: 'GET',
    path: '/v1/sessions',
    summary: "Console sessions: your own, or everybody's for an admin",
    tag: 'session',
    access: viewer,
    query: token.ConsoleSessionQuery,
    success: 200,
    reply: token.ConsoleSessionPage,
  },
  'session-revoke': {
    method: 'DELETE',
    path: '/v1/sessions/{id}',
    summary: "End a console session: your own, or anybody's for an admin",
    tag: 'session',
    access: viewer,
    after_restore: true,
    params: IdParams,
    success: 204,
  },
  'token-create': {
    method: 'POST',
    path: '/v1/tokens',
    summary: 'Make a token',
    tag: 'tokens',
    access: admin,
    after_restore: true,
    body: token.TokenCreate,
    problems: ['pool_not_found'],
    success: 201,
    reply: token.Token,
  },
  'token-list': {
    method: 'GET',
    path: '/v1/tokens',
    summary: 'All tokens, without their secrets',
    tag: 'tokens',
    access: admin,
    success: 200,
    reply: token.TokenPage,
  },
  'token-delete': {
    method: 'DELETE',
    path: '/v1/tokens/{id}',
    summary: 'Revoke a token',
    tag: 'tokens',
    access: admin,
    after_restore: true,
    params: IdParams,
    success: 204,
  },
} as const satisfies Record<string, RouteDeclaration>;
