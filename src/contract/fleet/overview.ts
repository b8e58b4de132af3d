/** Counts for the overview, and the server's own health. */
import { type Static, Type } from 'typebox';
import { TaskKey } from '../agent/agent.ts';
import { nullable, strict, Timestamp } from '../primitives.ts';

export const Overview = Type.Object(
  {
    at: Timestamp,
    nodes: Type.Record(Type.String(), Type.Integer()),
    allocations: Type.Record(Type.String(), Type.Integer()),
    operations: Type.Record(Type.String(), Type.Integer()),
    pools: Type.Integer(),
    held: Type.Integer({ description: 'Nodes whose verdict is held back.' }),
    never_ready: Type.Array(
      Type.Object({ pool: Type.String(), agent_version: nullable(Type.String()), nodes: Type.Integer() }),
      { description: 'Nodes that beat but never said that they are ready, by the agent they run.' },
    ),
    findings: Type.Record(Type.String(), Type.Integer(), { description: 'Open findings by kind.' }),
    replicas: Type.Array(
      Type.Object({
        replica_id: Type.String(),
        host: Type.String(),
        address: Type.String(),
        live: Type.Boolean(),
        started_at: Timestamp,
      }),
    ),
  },
  { $id: 'Overview' },
);
export type Overview = Static<typeof Overview>;

export const EffectiveSettings = Type.Object(
  {
    version: Type.String(),
    node_version: Type.String(),
    platform: Type.String(),
    started_with: Type.Record(Type.String(), Type.Unknown(), {
      description: 'What the flags, their variables and their defaults come to, without what is secret.',
    }),
    sources: Type.Record(Type.String(), Type.String(), {
      description: 'Where each of those came from: a flag, a variable, `default`, or why it is so.',
    }),
    decides_by: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Budgets, classes, the brake and what else the settings file and the defaults come to.',
    }),
  },
  { $id: 'EffectiveSettings' },
);

export const HealthQuery = Type.Object(
  {
    nonce: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]{16,64}$',
        description: 'Asks the server to show who it is: it signs this with the key that its tasks are signed with.',
      }),
    ),
  },
  strict,
);

/** The signature covers the canonical JSON of this object without `signature`. */
export const ServerIdentity = Type.Object(
  {
    service: Type.Literal('slipway'),
    installation_id: Type.String(),
    nonce: Type.String(),
    kid: Type.String(),
    public_key: Type.String({ description: 'Ed25519, SPKI DER, base64' }),
    endorsed_by: Type.Optional(Type.String()),
    endorsement: Type.Optional(Type.String({ description: 'Of the key, by the one before it' })),
    other_keys: Type.Optional(
      Type.Array(TaskKey, { description: 'The keys before it and after it, each with its endorsement' }),
    ),
    signature: Type.String({ description: 'Ed25519, base64' }),
  },
  { $id: 'ServerIdentity' },
);
export type ServerIdentity = Static<typeof ServerIdentity>;

export const TaskKeyRotated = Type.Object(
  {
    kid: Type.String(),
    signs_from: Timestamp,
    former_kid: Type.String(),
    former_accepted_until: Timestamp,
  },
  { $id: 'TaskKeyRotated' },
);

export const Health = Type.Object(
  { status: Type.String(), version: Type.String(), identity: Type.Optional(ServerIdentity) },
  { $id: 'Health' },
);
/** A `slow` store still serves; only `unavailable` makes the replica not ready. */
const ReadinessCheck = Type.Object({
  ok: Type.Boolean(),
  state: Type.Union([Type.Literal('ok'), Type.Literal('slow'), Type.Literal('unavailable')]),
  detail: nullable(Type.String()),
});
export type ReadinessCheck = Static<typeof ReadinessCheck>;
export const Readiness = Type.Object(
  {
    status: Type.String(),
    checks: Type.Record(Type.String(), ReadinessCheck),
  },
  { $id: 'Readiness' },
);
