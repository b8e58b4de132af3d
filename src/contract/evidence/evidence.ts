/** Evidence on the wire: one append-only fact with all ids known for it. */
import { type Static, Type } from 'typebox';
import { originMeans, origins } from '../../lifecycle/explain/evidence-origins.ts';
import { Id, Moment, nullable, OpenObject, pageOf, paging, strict, Timestamp } from '../primitives.ts';
import { reservedNouns } from './evidence-kinds.ts';
import { evidenceLayers } from './evidence-layers.ts';

export type EvidenceLayer = (typeof evidenceLayers)[number];
export const EvidenceLayer = Type.Enum([...evidenceLayers]);

export const EvidenceOrigin = Type.Enum([...origins], {
  description: `Who stated the fact: ${Object.entries(originMeans)
    .map(([origin, means]) => `${origin}: ${means}`)
    .join('; ')}.`,
});

/** The kind of a fact that a caller posts. */
export const OutsideKind = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[a-z0-9_.-]+$',
  description: `noun.verb; these nouns are reserved for the control plane: ${reservedNouns.join(', ')}`,
});

export const Actor = Type.Object({ kind: Type.String(), id: Type.String(), name: Type.String() }, { $id: 'Actor' });
export type Actor = Static<typeof Actor>;

export const Evidence = Type.Object(
  {
    cursor: Type.String(),
    at: Timestamp,
    layer: EvidenceLayer,
    origin: EvidenceOrigin,
    kind: Type.String(),
    summary: Type.String(),
    data: OpenObject,
    actor: nullable(Actor),
    node_id: nullable(Type.String()),
    node_instance_id: nullable(Type.String()),
    correlation_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    workflow_id: nullable(Type.String()),
  },
  { $id: 'Evidence' },
);
export type Evidence = Static<typeof Evidence>;
export const EvidencePage = pageOf(Evidence, 'EvidencePage');

export const OutsideFacts = Type.Object(
  {
    facts: Type.Array(
      Type.Object(
        {
          at: Type.Optional(Moment),
          layer: Type.Enum(['node', 'provider', 'api', 'operator', 'transport']),
          kind: OutsideKind,
          summary: Type.String({ minLength: 1, maxLength: 1024 }),
          data: Type.Optional(OpenObject),
          node_id: Type.Optional(Id),
          node_instance_id: Type.Optional(Id),
          correlation_id: Type.Optional(Id),
          allocation_id: Type.Optional(Id),
          workflow_id: Type.Optional(Id),
        },
        strict,
      ),
      { minItems: 1, maxItems: 500 },
    ),
  },
  { ...strict, $id: 'OutsideFacts' },
);
export type OutsideFact = Static<typeof OutsideFacts>['facts'][number];
export const FactsTaken = Type.Object({ facts: Type.Integer() }, { $id: 'FactsTaken' });

const evidenceFilters = {
  layer: Type.Optional(EvidenceLayer),
  kind: Type.Optional(Type.String({ maxLength: 128 })),
  since: Type.Optional(Moment),
  until: Type.Optional(Moment),
  order: Type.Optional(Type.Enum(['newest', 'oldest'])),
  ...paging,
};

export const TimelineQuery = Type.Object(evidenceFilters, strict);

const auditFilter = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 128, description }));
export const AuditQuery = Type.Object(
  {
    target_id: auditFilter("The id of the action's target, or a correlation id. Refused actions match too."),
    actor: auditFilter('Who acted: the id or the name of a token, or an address.'),
    action: auditFilter('An action, or the operation id of a route.'),
    code: auditFilter('The error code of a refused action.'),
    ...evidenceFilters,
  },
  strict,
);
export type AuditQuery = Static<typeof AuditQuery>;
export const JoinedTimelineQuery = Type.Object(
  {
    node_id: Type.Optional(Id),
    node_instance_id: Type.Optional(Id),
    correlation_id: Type.Optional(Id),
    allocation_id: Type.Optional(Id),
    workflow_id: Type.Optional(Id),
    ...evidenceFilters,
  },
  strict,
);
export type JoinedTimelineQuery = Static<typeof JoinedTimelineQuery>;
