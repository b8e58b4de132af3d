/** Allocations: claimed, read, released, tried again. */

import { operator, viewer } from '../access.ts';
import * as allocation from '../allocation.ts';
import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';

export const allocationRoutes = {
  'allocation-create': {
    method: 'POST',
    path: '/v1/allocations',
    summary: 'Claim a node of a pool',
    tag: 'allocations',
    access: operator,
    body: allocation.AllocationCreate,
    success: 202,
    reply: allocation.AllocationTouched,
  },
  'allocation-list': {
    method: 'GET',
    path: '/v1/allocations',
    summary: 'Allocations, newest first',
    tag: 'allocations',
    access: viewer,
    query: allocation.AllocationListQuery,
    success: 200,
    reply: allocation.AllocationPage,
  },
  'allocation-get': {
    method: 'GET',
    path: '/v1/allocations/{id}',
    summary: 'One allocation',
    tag: 'allocations',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: allocation.Allocation,
  },
  'allocation-release': {
    method: 'POST',
    path: '/v1/allocations/{id}/release',
    summary: 'Give it back; before it is active this is a verified cancel',
    tag: 'allocations',
    access: operator,
    params: IdParams,
    body: allocation.ActionReason,
    body_optional: true,
    success: 202,
    reply: allocation.AllocationTouched,
  },
  'allocation-retry': {
    method: 'POST',
    path: '/v1/allocations/{id}/retry',
    summary: 'Try a failed allocation again, with a new instance',
    tag: 'allocations',
    access: operator,
    params: IdParams,
    body: allocation.ActionReason,
    body_optional: true,
    success: 202,
    reply: allocation.AllocationTouched,
  },
} as const satisfies Record<string, RouteDeclaration>;
