/** Routes of the server: health, readiness, metrics, settings, status, log level, counts. */

import * as overview from '../fleet/overview.ts';
import * as status from '../fleet/server-status.ts';
import type { RouteDeclaration } from '../route.ts';
import { admin, fleetOperator, fleetViewer, publicAccess } from '../security/access.ts';

export const serverRoutes = {
  'task-key-rotate': {
    method: 'POST',
    path: '/v1/keys/tasks/rotate',
    summary: 'Announce the next key that signs tasks',
    tag: 'server',
    access: admin,
    problems: ['task_key_pending'],
    success: 201,
    reply: overview.TaskKeyRotated,
  },
  'health-get': {
    method: 'GET',
    path: '/healthz',
    summary: 'Whether the process is alive and, with a nonce, proof of its identity',
    tag: 'server',
    access: publicAccess,
    query: overview.HealthQuery,
    success: 200,
    reply: overview.Health,
  },
  'readiness-get': {
    method: 'GET',
    path: '/readyz',
    summary: 'Whether the server can serve requests',
    tag: 'server',
    access: publicAccess,
    success: 200,
    also_answers: { 503: 'The server cannot serve now; `checks` says why' },
    reply: overview.Readiness,
  },
  'metrics-get': {
    method: 'GET',
    path: '/metrics',
    summary: 'Prometheus metrics',
    tag: 'server',
    access: fleetViewer,
    success: 200,
    reply_type: 'text/plain',
  },
  'settings-get': {
    method: 'GET',
    path: '/v1/settings',
    summary: 'Versions and effective settings, without secrets',
    tag: 'server',
    access: fleetOperator,
    success: 200,
    reply: overview.EffectiveSettings,
  },
  'server-status': {
    method: 'GET',
    path: '/v1/status',
    summary: 'The replica that answers: versions, database, sweeps, disk, certificate and its problems',
    tag: 'server',
    access: fleetOperator,
    success: 200,
    reply: status.ServerStatus,
  },
  'log-level-set': {
    method: 'POST',
    path: '/v1/log-level',
    summary: 'Change the log level of every replica for a while',
    tag: 'server',
    access: admin,
    after_restore: true,
    body: status.LogLevelRequest,
    success: 200,
    reply: status.LogLevelState,
  },
  'overview-get': {
    method: 'GET',
    path: '/v1/overview',
    summary: 'Counts of everything by status',
    tag: 'server',
    access: fleetViewer,
    success: 200,
    reply: overview.Overview,
  },
} as const satisfies Record<string, RouteDeclaration>;
