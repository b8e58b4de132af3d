/** Routes of findings: read and decide. Also compares rows with their evidence. */

import { IdParams } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer } from '../security/access.ts';
import * as finding from '../supervision/finding.ts';

export const driftRoutes = {
  'drift-list': {
    method: 'GET',
    path: '/v1/drift',
    summary: 'Findings, with our record and what was observed, newest first; only open ones unless a status is given',
    tag: 'supervision',
    access: fleetViewer,
    query: finding.FindingQuery,
    success: 200,
    reply: finding.FindingPage,
  },
  'store-verify': {
    method: 'GET',
    path: '/v1/store/verify',
    summary: 'Rebuild node and allocation rows from evidence, page by page, and list those that differ',
    tag: 'supervision',
    access: fleetViewer,
    new_work: true,
    query: finding.VerifyQuery,
    success: 200,
    reply: finding.StoreVerified,
  },
  'drift-repair': {
    method: 'POST',
    path: '/v1/drift/{id}/repair',
    summary: 'Repair a finding: retire a node whose machine is gone, with proof, or restore a row from its evidence',
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
    summary: 'Accept a finding as known; if a row differs from its evidence, the row is kept and recorded as correct',
    tag: 'supervision',
    access: fleetOperator,
    params: IdParams,
    body: finding.FindingDecision,
    problems: ['action_illegal'],
    success: 200,
    reply: finding.FindingDecided,
  },
} as const satisfies Record<string, RouteDeclaration>;
