/** Routes of `doctor`: a machine's connection, and a round trip of a task. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer, instance, viewer } from '../security/access.ts';
import * as checkup from '../supervision/checkup.ts';

export const checkupRoutes = {
  'node-checkup': {
    method: 'GET',
    path: '/v1/nodes/{id}/checkup',
    summary: 'Check the connection of a node, layer by layer: credential, fence, heartbeat',
    tag: 'nodes',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: checkup.Checkup,
  },
  'node-ping': {
    method: 'POST',
    path: '/v1/nodes/{id}/ping',
    summary: 'Send a ping task to the agent of a node, or return the one in progress',
    tag: 'nodes',
    access: fleetOperator,
    after_restore: true,
    new_work: true,
    params: IdParams,
    body: checkup.PingRequest,
    body_optional: true,
    problems: ['action_illegal', 'no_agent'],
    success: 202,
    reply: checkup.Ping,
  },
  'node-ping-get': {
    method: 'GET',
    path: '/v1/nodes/{id}/ping/{task_id}',
    summary: 'Whether a ping was claimed and answered; can wait until it ends',
    tag: 'nodes',
    access: fleetViewer,
    params: checkup.PingParams,
    query: checkup.PingQuery,
    problems: ['task_not_found'],
    success: 200,
    reply: checkup.Ping,
  },
  'agent-checkup': {
    method: 'GET',
    path: '/v1/agent/checkup',
    summary: 'Check the connection of this instance; changes nothing, and does not count as a heartbeat',
    tag: 'agent',
    access: instance,
    success: 200,
    reply: checkup.Checkup,
  },
  'agent-ping': {
    method: 'POST',
    path: '/v1/agent/ping',
    summary: 'Send a ping task to the agent of this instance',
    tag: 'agent',
    access: instance,
    body: checkup.PingRequest,
    body_optional: true,
    problems: ['no_agent', 'action_illegal'],
    success: 202,
    reply: checkup.Ping,
  },
  'agent-ping-get': {
    method: 'GET',
    path: '/v1/agent/ping/{task_id}',
    summary: 'Whether that ping was claimed and answered; can wait until it ends',
    tag: 'agent',
    access: instance,
    params: checkup.OwnPingParams,
    query: checkup.PingQuery,
    problems: ['task_not_found'],
    success: 200,
    reply: checkup.Ping,
  },
} as const satisfies Record<string, RouteDeclaration>;
