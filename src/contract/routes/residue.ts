/** Routes of the residue ledger. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as residue from '../supervision/residue.ts';

export const residueRoutes = {
  'residue-list': {
    method: 'GET',
    path: '/v1/residue',
    summary: 'Resources at providers without a live owner, newest first',
    tag: 'residue',
    access: fleetViewer,
    query: residue.ResidueListQuery,
    success: 200,
    reply: residue.ResiduePage,
  },
  'residue-adopt': {
    method: 'POST',
    path: '/v1/residue/{id}/adopt',
    summary: 'Adopt a resource: it no longer counts as residue',
    tag: 'residue',
    access: fleetOperator,
    params: IdParams,
    body: residue.ResidueRequest,
    problems: ['action_illegal'],
    success: 200,
    reply: residue.ResidueActed,
  },
  'residue-delete': {
    method: 'POST',
    path: '/v1/residue/{id}/delete',
    summary: 'Destroy a resource with our tags, and prove that it is gone',
    tag: 'residue',
    access: fleetOperator,
    params: IdParams,
    body: residue.ResidueRequest,
    problems: ['action_illegal'],
    success: 202,
    reply: residue.ResidueActed,
  },
  'residue-verify': {
    method: 'POST',
    path: '/v1/residue/{id}/verify',
    summary: 'Check now whether a resource still exists',
    tag: 'residue',
    access: fleetOperator,
    params: IdParams,
    body: residue.ResidueRequest,
    problems: ['action_illegal'],
    success: 202,
    reply: residue.ResidueActed,
  },
} as const satisfies Record<string, RouteDeclaration>;
