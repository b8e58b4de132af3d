/** The route that replays history under a proposed policy. */

import type { RouteDeclaration } from '../route.ts';
import { fleetViewer } from '../security/access.ts';
import { ReplayReply, ReplayRequest } from '../supervision/replay.ts';

export const replayRoutes = {
  'policy-replay': {
    method: 'POST',
    path: '/v1/replay',
    summary: 'Which recorded decisions would differ under a proposed policy; changes nothing',
    tag: 'supervision',
    access: fleetViewer,
    new_work: true,
    body: ReplayRequest,
    reads_only: true,
    problems: [
      'pool_not_found',
      'driver_fixed',
      'driver_unknown',
      'invalid_spec',
      'host_bound_pool_refused',
      'pool_field_privileged',
      'masked_value_unknown',
    ],
    success: 200,
    reply: ReplayReply,
  },
} as const satisfies Record<string, RouteDeclaration>;
