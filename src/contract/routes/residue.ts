/** Routes of the residue ledger. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as residue from '../supervision/residue.ts';

export const residueRoutes = {
  'residue-list': {
    method: 'GET',
    path: '/v1/residue',
    summary: 'What is left upstream without a live owner, newest first',
    tag: 'residue',
    access: fleetViewer,
    query: residue.ResidueListQuery,
    success: 200,
    reply: residue.ResiduePage,
  },
  'residue-adopt': {
    method: 'POST',
    path: '/v1/residue/{id}/adopt',
    summary: 'Take it over by name; it no longer counts as left behind',
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
    summary: 'Destroy what carries our tags, and prove it gone',
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
    summary: 'Look now whether it is still there',
    tag: 'residue',
    access: fleetOperator,
    params: IdParams,
    body: residue.ResidueRequest,
    problems: ['action_illegal'],
    success: 202,
    reply: residue.ResidueActed,
  },
} as const satisfies Record<string, RouteDeclaration>;
