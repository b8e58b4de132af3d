/** Allocations: claimed, read, released, tried again. */

import { operator, viewer } from '../access.ts';
import * as allocation from '../allocation.ts';
import * as action from '../allocation-action.ts';
import { Certificate } from '../certificate.ts';
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
  'allocation-certificate': {
    method: 'GET',
    path: '/v1/allocations/{id}/certificate',
    summary: 'The signed release certificate, byte for byte',
    tag: 'allocations',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: Certificate,
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
  'allocation-actions': {
    method: 'GET',
    path: '/v1/allocations/{id}/actions',
    summary: 'What may be done about an allocation now, and what not, and why not; also when its machine is gone',
    tag: 'allocations',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: action.OfferedAllocationActions,
  },
  'allocation-act': {
    method: 'POST',
    path: '/v1/allocations/{id}/actions/{action}',
    summary: 'Do it, or with dry_run hear what would come of it',
    tag: 'allocations',
    access: operator,
    params: action.AllocationActionParams,
    body: action.AllocationActionRequest,
    success: 200,
    reply: action.AllocationActed,
  },
} as const satisfies Record<string, RouteDeclaration>;
