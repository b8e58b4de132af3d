/** Routes of findings: read and decide. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as finding from '../supervision/finding.ts';

export const driftRoutes = {
  'drift-list': {
    method: 'GET',
    path: '/v1/drift',
    summary: 'Findings with both sides, newest first; the open ones unless a status is named',
    tag: 'supervision',
    access: fleetViewer,
    query: finding.FindingQuery,
    success: 200,
    reply: finding.FindingPage,
  },
  'store-verify': {
    method: 'GET',
    path: '/v1/store/verify',
    summary: 'Rebuild node and allocation rows from evidence, page by page, and tell which differ',
    tag: 'supervision',
    access: fleetViewer,
    query: finding.VerifyQuery,
    success: 200,
    reply: finding.StoreVerified,
  },
  'drift-repair': {
    method: 'POST',
    path: '/v1/drift/{id}/repair',
    summary: 'Take a machine that is gone down with proof, or bring a row to what its evidence says',
    tag: 'supervision',
    access: fleetOperator,
    params: IdParams,
    body: finding.FindingDecision,
    problems: ['action_illegal'],
    success: 200,
    reply: finding.FindingDecided,
  },
  'drift-accept': {
    method: 'POST',
    path: '/v1/drift/{id}/accept',
    summary: 'Say that it is known, or that a row holds as it stands',
    tag: 'supervision',
    access: fleetOperator,
    params: IdParams,
    body: finding.FindingDecision,
    problems: ['action_illegal'],
    success: 200,
    reply: finding.FindingDecided,
  },
} as const satisfies Record<string, RouteDeclaration>;
