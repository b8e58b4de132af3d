/**
 * The pool document: the description of a class of machines. Only `driver` is required; the name is
 * in the URL.
 */
import { type Static, Type } from 'typebox';
import { driftPolicies } from '../lifecycle/findings/findings.ts';
import { keepNamePolicies } from '../lifecycle/joins/duplicates.ts';
import { Name, nullable, OpenObject, PositiveSeconds, pageOf, Seconds, strict, Timestamp } from './primitives.ts';

export const Budgets = Type.Object(
  {
    queue_seconds: Type.Optional(PositiveSeconds),
    provision_seconds: Type.Optional(PositiveSeconds),
    start_seconds: Type.Optional(PositiveSeconds),
    offline_seconds: Type.Optional(PositiveSeconds),
    drain_seconds: Type.Optional(PositiveSeconds),
    release_seconds: Type.Optional(PositiveSeconds),
    rescue_seconds: Type.Optional(Seconds),
    silence_seconds: Type.Optional(PositiveSeconds),
    policy: Type.Optional(Type.Enum(['fixed', 'learned'])),
    floor_seconds: Type.Optional(PositiveSeconds),
    ceiling_seconds: Type.Optional(PositiveSeconds),
    progress_aware: Type.Optional(Type.Boolean()),
  },
  strict,
);

/** The fields of a pool document, without the name, which is in the URL. */
const poolFields = {
  driver: Type.String({ minLength: 1, maxLength: 32 }),
  mode: Type.Optional(Type.Enum(['enforce', 'observe'])),
  runtime_class: Type.Optional(Name),
  reuse: Type.Optional(Type.Boolean()),
  max_nodes: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 20 })),
  paused: Type.Optional(Type.Boolean()),
  zone: Type.Optional(Name),
  spec: Type.Optional(OpenObject),
  requires: Type.Optional(
    Type.Array(Type.Object({ name: Name, check: Type.String({ minLength: 1, maxLength: 4096 }) }, strict), {
      maxItems: 64,
    }),
  ),
  budgets: Type.Optional(Budgets),
  heartbeat: Type.Optional(
    Type.Object(
      {
        interval_seconds: Type.Optional(
          Type.Number({
            minimum: 0.1,
            // Above `maxIntervalSeconds`, because stored documents may have a longer interval.
            maximum: 86_400,
            description: 'Agents are assigned an interval of 3600 s at most, also if the pool sets a longer one.',
          }),
        ),
        stale_after_seconds: Type.Optional(Type.Number({ minimum: 0.1, maximum: 604_800 })),
      },
      strict,
    ),
  ),
  probe: Type.Optional(
    Type.Object(
      {
        path: Type.Optional(Type.String({ pattern: '^/[!-~]*$', maxLength: 512 })),
        timeout_seconds: Type.Optional(Type.Number({ minimum: 0.1, maximum: 30 })),
        allow_private: Type.Optional(Type.Boolean()),
      },
      strict,
    ),
  ),
  compat: Type.Optional(
    Type.Object(
      {
        allow_takeover: Type.Optional(
          Type.Boolean({
            description:
              'If true, a join token is enough to take over the name of a node that uses a foreign protocol, even if its process is live or it serves a tenant.',
          }),
        ),
        keep_name: Type.Optional(
          Type.Enum([...keepNamePolicies], {
            description:
              'Which of two live processes that use one name over a foreign protocol keeps it. Without allow_takeover, `latest` never gives the name of a machine that serves a tenant to a process at another address.',
          }),
        ),
      },
      strict,
    ),
  ),
  release: Type.Optional(
    Type.Object(
      {
        step_tries: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
        retry_base_seconds: Type.Optional(Seconds),
        retry_max_seconds: Type.Optional(Seconds),
        max_retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000 })),
      },
      strict,
    ),
  ),
  drift: Type.Optional(Type.Object({ policy: Type.Optional(Type.Enum([...driftPolicies])) }, strict)),
  brake: Type.Optional(
    Type.Object(
      {
        fraction: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
        min_nodes: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
      },
      strict,
    ),
  ),
};

/**
 * A whole pool document or a part of one. Without a driver, it is merged over the pool's current
 * document.
 */
export const ProposedPool = Type.Object(
  { name: Type.Optional(Name), ...poolFields, driver: Type.Optional(poolFields.driver) },
  { ...strict, $id: 'ProposedPool' },
);
export type ProposedPool = Static<typeof ProposedPool>;

/** The body of `PUT /v1/pools/{pool}`; a `name` in it must match the URL. */
export const PoolDocument = Type.Object(
  { name: Type.Optional(Name), ...poolFields },
  { ...strict, $id: 'PoolDocument' },
);
export type PoolDocument = Static<typeof PoolDocument>;

export const Pool = Type.Object(
  {
    name: Name,
    generation: Type.Integer(),
    ...poolFields,
    created_at: Timestamp,
    updated_at: Timestamp,
    nodes: Type.Object({ live: Type.Integer(), free: Type.Integer() }),
  },
  { $id: 'Pool' },
);
export type Pool = Static<typeof Pool>;
export const PoolPage = pageOf(Pool, 'PoolPage');

export const PoolParams = Type.Object({ pool: Name }, strict);

export const JoinTokenRequest = Type.Object(
  {
    ttl_seconds: Type.Optional(PositiveSeconds),
    no_expiry: Type.Optional(
      Type.Literal(true, {
        description:
          'The token never expires. Use it for pools whose machines send heartbeats with it. Cannot be combined with ttl_seconds.',
      }),
    ),
    max_uses: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
  },
  { ...strict, $id: 'JoinTokenRequest' },
);
export const JoinToken = Type.Object(
  {
    token_id: Type.String(),
    pool: Name,
    expires_at: nullable(Timestamp),
    max_uses: nullable(Type.Integer()),
    uses: Type.Integer(),
    created_at: Timestamp,
    token: Type.Optional(Type.String({ description: 'Shown once, when it is made.' })),
  },
  { $id: 'JoinToken' },
);
export type JoinToken = Static<typeof JoinToken>;
export const JoinTokenPage = pageOf(JoinToken, 'JoinTokenPage');
