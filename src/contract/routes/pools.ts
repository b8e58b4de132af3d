/** Pools and their join tokens. */
import { Type } from 'typebox';
import { fleetOperator, fleetViewer } from '../access.ts';
import { PoolBoots } from '../boots.ts';
import * as pool from '../pool.ts';
import { Id, Name, strict } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';

export const poolRoutes = {
  'pool-put': {
    method: 'PUT',
    path: '/v1/pools/{pool}',
    summary: 'Declare a pool',
    tag: 'pools',
    access: fleetOperator,
    params: pool.PoolParams,
    body: pool.PoolDocument,
    also_reads: ['application/yaml'],
    success: 200,
    reply: pool.Pool,
  },
  'pool-get': {
    method: 'GET',
    path: '/v1/pools/{pool}',
    summary: 'One pool',
    tag: 'pools',
    access: fleetViewer,
    params: pool.PoolParams,
    success: 200,
    reply: pool.Pool,
  },
  'pool-list': {
    method: 'GET',
    path: '/v1/pools',
    summary: 'All pools',
    tag: 'pools',
    access: fleetViewer,
    success: 200,
    reply: pool.PoolPage,
  },
  'pool-delete': {
    method: 'DELETE',
    path: '/v1/pools/{pool}',
    summary: 'Delete a pool without live nodes',
    tag: 'pools',
    access: fleetOperator,
    params: pool.PoolParams,
    success: 204,
  },
  'pool-boots': {
    method: 'GET',
    path: '/v1/pools/{pool}/boots',
    summary: 'How long its recorded boots took, phase by phase, and the budget they have',
    tag: 'pools',
    access: fleetViewer,
    params: pool.PoolParams,
    success: 200,
    reply: PoolBoots,
  },
  'join-token-create': {
    method: 'POST',
    path: '/v1/pools/{pool}/join-tokens',
    summary: 'Let agents join the pool by themselves',
    tag: 'pools',
    access: fleetOperator,
    params: pool.PoolParams,
    body: pool.JoinTokenRequest,
    body_optional: true,
    success: 201,
    reply: pool.JoinToken,
  },
  'join-token-list': {
    method: 'GET',
    path: '/v1/pools/{pool}/join-tokens',
    summary: "The pool's join tokens, without their secrets",
    tag: 'pools',
    access: fleetOperator,
    params: pool.PoolParams,
    success: 200,
    reply: pool.JoinTokenPage,
  },
  'join-token-delete': {
    method: 'DELETE',
    path: '/v1/pools/{pool}/join-tokens/{id}',
    summary: 'Revoke a join token',
    tag: 'pools',
    access: fleetOperator,
    params: Type.Object({ pool: Name, id: Id }, strict),
    success: 204,
  },
} as const satisfies Record<string, RouteDeclaration>;
