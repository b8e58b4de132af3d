/** Operations on the wire: a durable workflow with steps and progress. */
import { type Static, Type } from 'typebox';
import { operationStatuses, shownStepStatuses } from '../lifecycle/model/states.ts';
import { Actor } from './evidence/evidence.ts';
import { Id, nullable, pageOf, paging, strict, Timestamp } from './primitives.ts';
import { Progress } from './progress.ts';

export const OperationError = Type.Object({
  code: Type.String(),
  owner_layer: Type.String(),
  step: nullable(Type.String()),
  message: Type.String(),
});
export type OperationError = Static<typeof OperationError>;

export const Step = Type.Object(
  {
    step: Type.Integer(),
    name: Type.String(),
    label: Type.String(),
    status: Type.Enum([...shownStepStatuses]),
    tries: Type.Integer(),
    usual_seconds: nullable(Type.Number()),
    started_at: nullable(Timestamp),
    finished_at: nullable(Timestamp),
    retry_at: nullable(Timestamp),
    error: nullable(OperationError),
  },
  { $id: 'Step' },
);
export type Step = Static<typeof Step>;

export const Operation = Type.Object(
  {
    workflow_id: Type.String(),
    kind: Type.String(),
    status: Type.Enum([...operationStatuses]),
    attempt: Type.Integer(),
    node_id: nullable(Type.String()),
    node_instance_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    correlation_id: Type.String(),
    replica_id: nullable(Type.String()),
    actor: nullable(Actor),
    progress: Progress,
    steps: Type.Array(Step),
    error: nullable(OperationError),
    created_at: Timestamp,
    started_at: nullable(Timestamp),
    finished_at: nullable(Timestamp),
  },
  { $id: 'Operation' },
);
export type Operation = Static<typeof Operation>;
export const OperationPage = pageOf(Operation, 'OperationPage');

export const OperationListQuery = Type.Object(
  {
    kind: Type.Optional(Type.String({ maxLength: 64 })),
    status: Type.Optional(Type.Enum([...operationStatuses])),
    node_id: Type.Optional(Id),
    allocation_id: Type.Optional(Id),
    ...paging,
  },
  strict,
);
