/** The progress of an operation, computed by the server and shown alike everywhere. */
import { type Static, Type } from 'typebox';
import { operationStatuses } from '../lifecycle/model/states.ts';

export const ProgressPart = Type.Object({
  name: Type.String(),
  kind: Type.String(),
  state: Type.String(),
  tone: Type.Enum(['ok', 'busy', 'bad', 'idle']),
  count: Type.Optional(Type.Integer()),
  detail: Type.Optional(Type.String()),
});
export type ProgressPart = Static<typeof ProgressPart>;

export const Progress = Type.Object(
  {
    workflow_id: Type.String(),
    kind: Type.String(),
    status: Type.Enum([...operationStatuses]),
    phase: Type.String(),
    label: Type.String(),
    step: Type.Integer(),
    total_steps: Type.Integer(),
    percent: Type.Number({ minimum: 0, maximum: 100 }),
    message: Type.String(),
    started_at: Type.Union([Type.String(), Type.Null()]),
    updated_at: Type.String(),
    elapsed_seconds: Type.Number(),
    step_elapsed_seconds: Type.Number(),
    expected: Type.Union([
      Type.Object({ p50_seconds: Type.Number(), p90_seconds: Type.Number(), samples: Type.Integer() }),
      Type.Null(),
    ]),
    eta_seconds: Type.Union([Type.Number(), Type.Null()]),
    slower_than: Type.Union([Type.Number(), Type.Null()]),
    stalled: Type.Boolean(),
    retry_after_seconds: Type.Optional(Type.Number()),
    failing: Type.Optional(
      Type.Object({
        code: Type.String(),
        owner_layer: Type.String(),
        message: Type.String(),
        tries: Type.Integer(),
        seconds: Type.Union([Type.Number(), Type.Null()]),
      }),
    ),
    parts: Type.Array(ProgressPart),
    error: Type.Optional(
      Type.Object({
        code: Type.String(),
        owner_layer: Type.String(),
        step: Type.Union([Type.String(), Type.Null()]),
        message: Type.String(),
      }),
    ),
  },
  { $id: 'Progress' },
);
export type Progress = Static<typeof Progress>;
