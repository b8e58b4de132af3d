/** Counts for the overview, and the server's own settings, identity and health. */
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
    held: Type.Integer({ description: 'The number of nodes with a held verdict.' }),
    never_ready: Type.Array(
      Type.Object({ pool: Type.String(), agent_version: nullable(Type.String()), nodes: Type.Integer() }),
      { description: 'Nodes that send heartbeats but never reported ready, by agent version.' },
    ),
    findings: Type.Record(Type.String(), Type.Integer(), { description: 'Open findings by kind.' }),
    replicas: Type.Array(
      Type.Object({
        replica_id: Type.String(),
        host: Type.String(),
        address: Type.String(),
        version: Type.String(),
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
      description: 'The effective values of all flags, from the command line, variables or defaults, without secrets.',
    }),
    sources: Type.Record(Type.String(), Type.String(), {
      description: 'Where each value came from: a flag, a variable, `default`, or a reason.',
    }),
    decides_by: Type.Record(Type.String(), Type.Unknown(), {
      description:
        'The effective settings of the settings file and its defaults: budgets, classes, the brake and so on.',
    }),
  },
  { $id: 'EffectiveSettings' },
);

export const HealthQuery = Type.Object(
  {
    nonce: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]{16,64}$',
        description: 'Makes the server prove its identity: it signs this nonce with the key that signs its tasks.',
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
    endorsement: Type.Optional(Type.String({ description: 'The signature of the previous key over this key' })),
    other_keys: Type.Optional(
      Type.Array(TaskKey, { description: 'The earlier and later keys, each with its endorsement' }),
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
export const databaseStates = ['ok', 'slow', 'unavailable', 'read_only', 'disk_full', 'commit_waits'] as const;
export type DatabaseState = (typeof databaseStates)[number];
/** A replica is ready in the states `ok` and `slow` only. */
const ReadinessCheck = Type.Object({
  ok: Type.Boolean(),
  state: Type.Enum([...databaseStates, 'stopping']),
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
