/** Routes of supervision: sweeps, the brake, maintenance windows. */

import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as supervision from '../supervision/supervision.ts';

export const supervisionRoutes = {
  'sweep-list': {
    method: 'GET',
    path: '/v1/sweeps',
    summary: 'The last run of each sweep on the replica that answers',
    tag: 'supervision',
    access: fleetViewer,
    success: 200,
    reply: supervision.SweepRuns,
  },
  'brake-get': {
    method: 'GET',
    path: '/v1/brake',
    summary: 'Held verdicts, their holds, and gaps of the control plane itself',
    tag: 'supervision',
    access: fleetViewer,
    success: 200,
    reply: supervision.Brake,
  },
  'brake-resume': {
    method: 'POST',
    path: '/v1/brake/resume',
    summary: 'Resume held verdicts: all, or those of one hold',
    tag: 'supervision',
    access: fleetOperator,
    body: supervision.BrakeResume,
    problems: ['hold_not_found'],
    success: 200,
    reply: supervision.Brake,
  },
  'maintenance-list': {
    method: 'GET',
    path: '/v1/maintenance',
    summary: 'Current and future maintenance windows',
    tag: 'supervision',
    access: fleetViewer,
    success: 200,
    reply: supervision.MaintenancePage,
  },
  'maintenance-put': {
    method: 'PUT',
    path: '/v1/maintenance/{name}',
    summary: 'Hold negative verdicts on a pool, a zone or labelled machines until a time',
    tag: 'supervision',
    access: fleetOperator,
    after_restore: true,
    params: supervision.MaintenanceParams,
    body: supervision.MaintenanceRequest,
    problems: ['pool_not_found'],
    success: 200,
    reply: supervision.Maintenance,
  },
  'maintenance-delete': {
    method: 'DELETE',
    path: '/v1/maintenance/{name}',
    summary: 'End a maintenance window now',
    tag: 'supervision',
    access: fleetOperator,
    after_restore: true,
    params: supervision.MaintenanceParams,
    success: 204,
  },
} as const satisfies Record<string, RouteDeclaration>;
