/** Nodes, and what is known about each. */

import { fleetOperator, viewer } from '../access.ts';
import * as evidence from '../evidence.ts';
import * as node from '../node.ts';
import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';

export const nodeRoutes = {
  'node-create': {
    method: 'POST',
    path: '/v1/nodes',
    summary: 'Expect a machine in an external pool',
    tag: 'nodes',
    access: fleetOperator,
    body: node.NodeCreate,
    success: 201,
    reply: node.NodeCreated,
  },
  'node-list': {
    method: 'GET',
    path: '/v1/nodes',
    summary: 'Nodes, newest first',
    tag: 'nodes',
    access: viewer,
    query: node.NodeListQuery,
    success: 200,
    reply: node.NodePage,
  },
  'node-get': {
    method: 'GET',
    path: '/v1/nodes/{id}',
    summary: 'One node',
    tag: 'nodes',
    access: viewer,
    params: IdParams,
    success: 200,
    reply: node.Node,
  },
  'node-timeline': {
    method: 'GET',
    path: '/v1/nodes/{id}/timeline',
    summary: 'Everything known about a node, from every layer',
    tag: 'nodes',
    access: viewer,
    params: IdParams,
    query: evidence.TimelineQuery,
    success: 200,
    reply: evidence.EvidencePage,
  },
  'node-logs': {
    method: 'GET',
    path: '/v1/nodes/{id}/logs',
    summary: 'Logs of every instance of a node',
    tag: 'nodes',
    access: viewer,
    params: IdParams,
    query: node.LogQuery,
    success: 200,
    reply: node.LogPage,
  },
  'node-boot': {
    method: 'GET',
    path: '/v1/nodes/{id}/boot',
    summary: 'Boot stages of an instance',
    tag: 'nodes',
    access: viewer,
    params: IdParams,
    query: node.BootQuery,
    success: 200,
    reply: node.Boot,
  },
} as const satisfies Record<string, RouteDeclaration>;
