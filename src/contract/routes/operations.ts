/** Routes of operations: read, cancel, retry, and bulk recovery. */

import * as allocation from '../allocation.ts';
import * as operation from '../operation.ts';
import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, operator, viewer } from '../security/access.ts';
import * as recovery from '../supervision/recovery.ts';

export const operationRoutes = {
  'operation-list': {
    method: 'GET',
    path: '/v1/operations',
    summary: 'Operations, newest first',
    tag: 'operations',
    access: viewer,
    query: operation.OperationListQuery,
    success: 200,
    reply: operation.OperationPage,
  },
  'operation-get': {
    method: 'GET',
    path: '/v1/operations/{id}',
    summary: 'One operation with its steps',
    tag: 'operations',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: operation.Operation,
  },
  'operation-cancel': {
    method: 'POST',
    path: '/v1/operations/{id}/cancel',
    summary: 'Ask a running operation to stop',
    tag: 'operations',
    access: operator,
    params: IdParams,
    body: allocation.ActionReason,
    body_optional: true,
    problems: ['operation_ended', 'action_illegal'],
    success: 202,
    reply: operation.Operation,
  },
  'operation-retry': {
    method: 'POST',
    path: '/v1/operations/{id}/retry',
    summary: 'Continue a failed operation at its failed step',
    tag: 'operations',
    access: operator,
    params: IdParams,
    body: allocation.ActionReason,
    body_optional: true,
    problems: ['action_illegal', 'pool_not_found', 'pool_paused'],
    success: 202,
    reply: operation.Operation,
  },
  'fleet-recover': {
    method: 'POST',
    path: '/v1/recover',
    summary:
      'Take one action on everything that a filter matches: canary first, at a capped rate, stopping after failures',
    tag: 'operations',
    access: fleetOperator,
    new_work: true,
    body: recovery.RecoveryRequest,
    problems: ['action_not_in_bulk', 'pool_not_found'],
    success: 202,
    reply: recovery.Recovery,
  },
} as const satisfies Record<string, RouteDeclaration>;
