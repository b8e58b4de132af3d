/** Routes that show how machines differ after a restore, and let the servers act again. */
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as restoration from '../supervision/restoration.ts';

export const restorationRoutes = {
  'restoration-get': {
    method: 'GET',
    path: '/v1/restoration',
    summary: 'Whether the servers only observe after a restore, and how many machines differ from their rows',
    tag: 'server',
    access: fleetViewer,
    success: 200,
    reply: restoration.RestorationState,
  },
  'restoration-differences': {
    method: 'GET',
    path: '/v1/restoration/differences',
    summary: 'The machines that differ from the restored rows, by kind',
    tag: 'server',
    access: fleetViewer,
    query: restoration.RestorationDifferencesQuery,
    success: 200,
    reply: restoration.RestorationDifferencePage,
  },
  'restoration-end': {
    method: 'POST',
    path: '/v1/restoration/end',
    summary: 'Let the servers act again; nodes that an unknown tenant may use are quarantined first',
    tag: 'server',
    access: fleetOperator,
    after_restore: true,
    body: restoration.RestorationEndRequest,
    problems: ['action_illegal'],
    success: 200,
    reply: restoration.RestorationEnded,
  },
} as const satisfies Record<string, RouteDeclaration>;
