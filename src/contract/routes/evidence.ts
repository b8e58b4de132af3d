/** Routes of evidence: search, timeline, verification, export, audit, live stream. */
import { Type } from 'typebox';
import * as evidence from '../evidence/evidence.ts';
import * as exported from '../evidence/evidence-export.ts';
import * as seals from '../evidence/evidence-seals.ts';
import * as find from '../fleet/find.ts';
import { Id, Name, paging, strict } from '../primitives.ts';
import type { RouteDeclaration } from '../route.ts';
import { fleetOperator, fleetViewer, operator, publicAccess, viewer } from '../security/access.ts';

const StreamQuery = Type.Object(
  {
    topics: Type.Optional(
      Type.String({
        maxLength: 128,
        pattern: '^(nodes|allocations|operations|evidence)(,(nodes|allocations|operations|evidence))*$',
      }),
    ),
    node_id: Type.Optional(Id),
    allocation_id: Type.Optional(Id),
    workflow_id: Type.Optional(Id),
    pool: Type.Optional(Name),
    cursor: paging.cursor,
  },
  strict,
);

export const evidenceRoutes = {
  'thing-find': {
    method: 'GET',
    path: '/v1/find',
    summary: 'Find anything by its id or name',
    tag: 'evidence',
    access: viewer,
    query: find.FindQuery,
    success: 200,
    reply: find.Found,
  },
  'timeline-get': {
    method: 'GET',
    path: '/v1/timeline',
    summary: 'Evidence by node, instance, allocation, operation (`workflow_id`) or correlation id',
    tag: 'evidence',
    access: viewer,
    query: evidence.JoinedTimelineQuery,
    success: 200,
    reply: evidence.EvidencePage,
  },
  'evidence-create': {
    method: 'POST',
    path: '/v1/evidence',
    summary: 'Post facts that an ingress, a deploy tool or another program observed',
    tag: 'evidence',
    access: operator,
    after_restore: true,
    new_work: true,
    body: evidence.OutsideFacts,
    body_limit_bytes: 1024 * 1024,
    success: 201,
    reply: evidence.FactsTaken,
  },
  'evidence-verify': {
    method: 'GET',
    path: '/v1/evidence/verify',
    summary: 'Compare evidence with its signed checkpoints, page by page',
    tag: 'evidence',
    access: fleetViewer,
    new_work: true,
    query: seals.EvidenceVerifyQuery,
    success: 200,
    reply: seals.EvidenceVerified,
  },
  'evidence-export': {
    method: 'GET',
    path: '/v1/evidence/export',
    summary: 'Sealed evidence with its position in the chain, and the checkpoints that sign it',
    tag: 'evidence',
    access: fleetOperator,
    new_work: true,
    query: exported.EvidenceExportQuery,
    success: 200,
    reply: exported.EvidenceExport,
  },
  'key-list': {
    method: 'GET',
    path: '/v1/keys',
    summary: 'Public keys that sign checkpoints and certificates',
    tag: 'evidence',
    access: publicAccess,
    success: 200,
    reply: seals.EvidenceKeys,
  },
  'audit-list': {
    method: 'GET',
    path: '/v1/audit',
    summary: 'Evidence of who did what, including refused requests',
    tag: 'evidence',
    access: fleetOperator,
    query: evidence.AuditQuery,
    success: 200,
    reply: evidence.EvidencePage,
  },
  'stream-open': {
    method: 'GET',
    path: '/v1/stream',
    summary: 'Live changes as server-sent events; after `reset`, read lists and rows again',
    tag: 'evidence',
    access: viewer,
    new_work: true,
    query: StreamQuery,
    success: 200,
    reply_type: 'text/event-stream',
  },
} as const satisfies Record<string, RouteDeclaration>;
