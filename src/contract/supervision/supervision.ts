/**
 * Supervision on the wire: the last runs of sweeps, holds of the brake, gaps in which the control
 * plane was down, and maintenance windows.
 */
import { type Static, Type } from 'typebox';
import { Actor } from '../evidence/evidence.ts';
import { Labels, Moment, Name, nullable, Reason, strict, Timestamp } from '../primitives.ts';

export const SweepRun = Type.Object(
  {
    name: Type.String(),
    every_seconds: Type.Number({ description: 'The longest time between two runs.' }),
    last_run_at: nullable(Timestamp),
    last_seconds: nullable(Type.Number()),
    lateness_seconds: nullable(
      Type.Number({ description: 'The largest delay of a verdict in the last run that gave verdicts.' }),
    ),
    runs: Type.Integer(),
    decided: Type.Integer(),
    held: Type.Integer(),
    would_have: Type.Integer(),
    waiting: Type.Boolean({
      description: 'The sweep gives no verdicts now, because this replica may have missed heartbeats.',
    }),
    error: nullable(Type.String()),
    failed_at: nullable(Timestamp),
  },
  { $id: 'SweepRun' },
);
export const SweepRuns = Type.Object({ replica_id: Type.String(), items: Type.Array(SweepRun) }, { $id: 'SweepRuns' });
export type SweepRuns = Static<typeof SweepRuns>;

export const Hold = Type.Object(
  {
    hold_id: Type.String(),
    kind: Type.Enum(['self-fault', 'mass-failure']),
    rule: Type.String(),
    scope: Type.Enum(['pool', 'zone']),
    name: Type.String(),
    reason: Type.String(),
    effect: Type.Enum(['hold', 'pause-launches']),
    negative: Type.Integer(),
    population: Type.Integer(),
    since: Timestamp,
    held_until: Timestamp,
    resumed_at: nullable(Timestamp),
    resumed_by: nullable(Actor),
    ended_at: nullable(Timestamp),
  },
  { $id: 'Hold' },
);

export const Maintenance = Type.Object(
  {
    name: Name,
    pool: nullable(Type.String()),
    zone: nullable(Type.String()),
    labels: Labels,
    starts_at: Timestamp,
    ends_at: Timestamp,
    reason: Type.String(),
    actor: nullable(Actor),
  },
  { $id: 'Maintenance' },
);
export type Maintenance = Static<typeof Maintenance>;

export const MaintenanceRequest = Type.Object(
  {
    pool: Type.Optional(Name),
    zone: Type.Optional(Name),
    labels: Type.Optional(Labels),
    starts_at: Type.Optional(Moment),
    ends_at: Moment,
    reason: Reason,
  },
  { ...strict, $id: 'MaintenanceRequest' },
);
export const MaintenanceParams = Type.Object({ name: Name }, strict);
export const MaintenancePage = Type.Object(
  { items: Type.Array(Maintenance), next_cursor: Type.Null() },
  { $id: 'MaintenancePage' },
);

export const Brake = Type.Object(
  {
    at: Timestamp,
    /** Whether any verdict is held, or a hold pauses launches. */
    holding: Type.Boolean(),
    held: Type.Array(Type.Object({ rule: Type.String(), kind: Type.String(), nodes: Type.Integer() })),
    holds: Type.Array(Hold),
    gaps: Type.Array(
      Type.Object({
        started_at: Timestamp,
        ended_at: Timestamp,
        seconds: Type.Number(),
        cause: Type.String(),
        deadlines_moved: Type.Integer(),
      }),
    ),
    heard_through: nullable(Timestamp),
    maintenance: Type.Array(Maintenance),
  },
  { $id: 'Brake' },
);
export type Brake = Static<typeof Brake>;

export const BrakeResume = Type.Object(
  {
    reason: Reason,
    hold_id: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  },
  { ...strict, $id: 'BrakeResume' },
);
