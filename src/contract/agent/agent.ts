/** The agent protocol: the requests of a node's agent, and the server's replies. */
import { type Static, Type } from 'typebox';
import { reportedStatuses } from '../../lifecycle/model/reports.ts';
import { OutsideKind } from '../evidence/evidence.ts';
import { BootStage, NodeStatusName } from '../node.ts';
import { Id, Labels, Moment, Name, nullable, OpenObject, strict, Timestamp } from '../primitives.ts';

export const TaskKey = Type.Object({
  kid: Type.String(),
  public_key: Type.String({ description: 'Ed25519, SPKI DER, base64' }),
  accepted_until: Type.Optional(
    Type.String({
      description: 'UTC, RFC 3339. Refuse signatures by this key from this time on. Absent: the time is not known yet.',
    }),
  ),
  endorsed_by: Type.Optional(Type.String({ description: 'The id of the previous key, which signed this one.' })),
  endorsement: Type.Optional(
    Type.String({
      description: 'Ed25519 signature by the previous key, base64; docs/reference/agent.md describes the signed text.',
    }),
  ),
});
export type TaskKey = Static<typeof TaskKey>;

/**
 * An invalid key is refused at registration, because it would otherwise be noticed only when a
 * release proof is verified.
 */
const Ed25519PublicKey = Type.String({
  pattern: '^MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=$',
  description: 'Ed25519, SPKI DER, base64',
});

/** User and password are refused, because everyone who may see the node sees its endpoint. */
const httpUrl = 'https?://[^\\s/?#@\\u0000]+([/?#][!-~]*)?';
const HttpUrl = Type.String({ maxLength: 2048, pattern: `^${httpUrl}$` });
/** Clients of other protocols send an empty string if they have no URL. */
export const HttpUrlOrEmpty = Type.String({ maxLength: 2048, pattern: `^(${httpUrl})?$` });

/**
 * Proves that the agent holds the key of its earlier registration; `contract/agent/key-proof.ts`
 * defines the signed text.
 */
const KeyProof = Type.Object(
  {
    signed_at: Moment,
    signature: Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$', description: 'Ed25519, base64' }),
  },
  strict,
);

export const RegisterRequest = Type.Object(
  {
    enrollment_token: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
    join_token: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
    name: Type.Optional(Name),
    base_url: Type.Optional(HttpUrl),
    version: Type.String({ minLength: 1, maxLength: 128 }),
    agent_public_key: Type.Optional(Ed25519PublicKey),
    rotates_credential: Type.Optional(
      Type.Boolean({ description: 'The agent can rotate its credential, so the server may issue one that expires.' }),
    ),
    key_change: Type.Optional(
      Type.Object(
        {
          signature: Type.String({
            pattern: '^[A-Za-z0-9+/]{86}==$',
            description:
              'Ed25519 signature by the former key, base64; docs/reference/agent.md describes the signed text.',
          }),
        },
        { ...strict, description: 'Proves that the holder of the former key wants `agent_public_key` to replace it.' },
      ),
    ),
    key_proof: Type.Optional(KeyProof),
    boot: Type.Optional(Type.Object({ stages: Type.Array(BootStage, { maxItems: 256 }) }, strict)),
    labels: Type.Optional(Labels),
  },
  { ...strict, $id: 'RegisterRequest' },
);
export type RegisterRequest = Static<typeof RegisterRequest>;

export const RegisterReply = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: Type.String(),
    credential: Type.Optional(
      Type.String({ description: 'Absent if the caller registered again with its credential.' }),
    ),
    credential_expires_at: Type.Optional(
      Type.Union([Timestamp, Type.Null()], {
        description: 'Rotate the credential before this time. Null: it does not expire.',
      }),
    ),
    task_keys: Type.Array(TaskKey),
    former_task_keys: Type.Optional(
      Type.Array(TaskKey, {
        description: 'Retired keys. Do not accept tasks signed by them; they only endorse later keys.',
      }),
    ),
    task_key_refresh_seconds: Type.Optional(
      Type.Number({
        description: 'How often to read the task keys, so that a new key is known before it signs tasks.',
      }),
    ),
    heartbeat_interval_seconds: Type.Number(),
    deadline_at: nullable(Timestamp),
    requires: Type.Optional(
      Type.Array(Type.Object({ name: Type.String(), check: Type.String() }), {
        description: "The pool's prerequisites, which the agent checks before it reports ready.",
      }),
    ),
    log_acknowledged_seq: Type.Optional(
      Type.Integer({
        description:
          'The number of the last log line of this instance that is stored. An agent whose own numbers are lower has lost its spool, and must continue after this number.',
      }),
    ),
  },
  { $id: 'RegisterReply' },
);
export type RegisterReply = Static<typeof RegisterReply>;

const beatFields = {
  node_instance_id: Type.Optional(
    Type.String({
      ...Id,
      description:
        'The instance that the heartbeat is for. It is refused if the credential belongs to another instance.',
    }),
  ),
  status: Type.Optional(Type.Enum([...reportedStatuses])),
  health_score: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  error_rate: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  active_tasks: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  boot_stage: Type.Optional(Type.String({ maxLength: 128 })),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
};

export const Heartbeat = Type.Object(beatFields, { ...strict, $id: 'Heartbeat' });
export type Heartbeat = Static<typeof Heartbeat>;

export const HeartbeatReply = Type.Object(
  {
    node_status: NodeStatusName,
    heartbeat_interval_seconds: Type.Number(),
    tasks_waiting: Type.Integer(),
    task_keys: Type.Optional(Type.Array(TaskKey)),
  },
  { $id: 'HeartbeatReply' },
);
export type HeartbeatReply = Static<typeof HeartbeatReply>;

const BatchBeat = Type.Object(
  {
    credential: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        description:
          "The machine's own credential. A heartbeat without one is refused with `beat_credential_missing`; the rest of the batch is not affected.",
      }),
    ),
    ...beatFields,
  },
  strict,
);
export type BatchBeat = Static<typeof BatchBeat>;
const batchFields = { beats: Type.Array(BatchBeat, { minItems: 1, maxItems: 1000 }) };

export const HeartbeatBatch = Type.Object(batchFields, { ...strict, $id: 'HeartbeatBatch' });
export const HeartbeatBatchReply = Type.Object(
  {
    results: Type.Array(
      Type.Union([HeartbeatReply, Type.Object({ code: Type.String(), status: Type.Integer(), detail: Type.String() })]),
    ),
  },
  { $id: 'HeartbeatBatchReply' },
);
export type HeartbeatResult = Static<typeof HeartbeatBatchReply>['results'][number];

/** A number that the sender of a frame chooses. The reply repeats it. */
const seq = { seq: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })) };

const idle = Type.Optional(
  Type.Boolean({
    description: 'No task is in progress, so the server may redeliver a lost task. Omit it if tasks run in parallel.',
  }),
);

/**
 * Frames that an agent sends on its stream: heartbeats, and readiness for a task. A relay sends
 * batches. docs/reference/agent.md documents them all.
 */
export const BeatFrame = Type.Object({ ...seq, ...beatFields }, strict);
export const TasksFrame = Type.Object({ tasks: Type.Literal(true), idle }, strict);
export const BatchFrame = Type.Object({ ...seq, ...batchFields }, strict);
export type BeatFrame = Static<typeof BeatFrame>;
export type TasksFrame = Static<typeof TasksFrame>;
export type BatchFrame = Static<typeof BatchFrame>;

/** The signature covers the canonical JSON of this object without `signature`. */
export const SignedTask = Type.Object(
  {
    task_id: Type.String(),
    type: Type.String(),
    params: OpenObject,
    node_id: Type.String(),
    node_instance_id: Type.String(),
    correlation_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    workflow_id: nullable(Type.String()),
    traceparent: Type.Optional(
      Type.String({ description: 'The W3C trace context for everything that the machine does for this task.' }),
    ),
    lease_seconds: Type.Number(),
    expires_at: Timestamp,
    kid: Type.String(),
    signature: Type.String({ description: 'Ed25519, base64' }),
  },
  { $id: 'SignedTask' },
);
export type SignedTask = Static<typeof SignedTask>;

export const NextTaskQuery = Type.Object(
  { wait: Type.Optional(Type.Number({ minimum: 0, maximum: 60 })), idle },
  strict,
);
export const NextTaskReply = Type.Object({ task: nullable(SignedTask) }, { $id: 'NextTaskReply' });
export type NextTaskReply = Static<typeof NextTaskReply>;

export const TaskProgress = Type.Object(
  {
    message: Type.Optional(Type.String({ maxLength: 1024 })),
    percent: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  },
  { ...strict, $id: 'TaskProgress' },
);
export const TaskProgressReply = Type.Object({ lease_seconds: Type.Number() }, { $id: 'TaskProgressReply' });

export const TaskResult = Type.Object(
  {
    status: Type.Enum(['succeeded', 'failed']),
    result: Type.Optional(OpenObject),
    error: Type.Optional(
      Type.Object({ code: Type.String({ maxLength: 128 }), message: Type.String({ maxLength: 8192 }) }, strict),
    ),
    /**
     * Ed25519 signature by the agent's key over the canonical JSON of {task_id, node_instance_id,
     * status, result}.
     */
    signature: Type.Optional(Type.String({ maxLength: 512 })),
  },
  { ...strict, $id: 'TaskResult' },
);
export type TaskResult = Static<typeof TaskResult>;

/** One line of the NDJSON body of `POST /v1/agent/logs`. */
export const ShippedLine = Type.Object(
  {
    seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    at: Moment,
    stream: Type.Enum(['agent', 'setup', 'stdout', 'stderr', 'clean']),
    line: Type.String({ maxLength: 16_384 }),
  },
  { ...strict, $id: 'ShippedLine' },
);
export type ShippedLine = Static<typeof ShippedLine>;
export const maxShippedLines = 5_000;
/** The whole `application/x-ndjson` body, as a list of its lines. */
export const ShippedLines = Type.Array(ShippedLine, {
  minItems: 1,
  maxItems: maxShippedLines,
  description: 'NDJSON: one JSON object per line.',
});
export const LogsReply = Type.Object({ acknowledged_seq: Type.Integer() }, { $id: 'LogsReply' });

export const BootReport = Type.Object(
  { stages: Type.Array(BootStage, { minItems: 1, maxItems: 256 }) },
  { ...strict, $id: 'BootReport' },
);

/** The results of the pool's `requires`, sent when the result of a check has changed. */
export const PrerequisiteReport = Type.Object(
  {
    results: Type.Array(
      Type.Object({ name: Name, ok: Type.Boolean(), detail: Type.Optional(Type.String({ maxLength: 1024 })) }, strict),
      { minItems: 1, maxItems: 64 },
    ),
  },
  { ...strict, $id: 'PrerequisiteReport' },
);
export type PrerequisiteReport = Static<typeof PrerequisiteReport>;

/**
 * Facts that only the machine observed, such as failed calls, crashes and checks. The agent stores
 * them until it can send them.
 */
export const AgentEvidence = Type.Object(
  {
    facts: Type.Array(
      Type.Object(
        {
          at: Moment,
          layer: Type.Enum(['node', 'transport']),
          kind: OutsideKind,
          summary: Type.String({ maxLength: 1024 }),
          data: Type.Optional(OpenObject),
        },
        strict,
      ),
      { minItems: 1, maxItems: 100 },
    ),
  },
  { ...strict, $id: 'AgentEvidence' },
);

export const CredentialRotation = Type.Object(
  {
    signature: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{86}==$',
        description: "Ed25519 signature by the agent's key, base64; docs/reference/agent.md describes the signed text.",
      }),
    ),
  },
  { ...strict, $id: 'CredentialRotation' },
);
/**
 * Proves that the agent holds its key; `contract/agent/credential-reissue.ts` defines the signed
 * text.
 */
export const CredentialReissue = Type.Object(
  {
    node_instance_id: Id,
    credential_sha256: Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'The SHA-256 of the credential that the agent holds, in hex.',
    }),
    signed_at: Moment,
    signature: Type.String({
      pattern: '^[A-Za-z0-9+/]{86}==$',
      description: "Ed25519 signature by the agent's key, base64; docs/reference/agent.md describes the signed text.",
    }),
  },
  { ...strict, $id: 'CredentialReissue' },
);
export type CredentialReissue = Static<typeof CredentialReissue>;
export const CredentialReply = Type.Object(
  { credential: Type.String(), credential_expires_at: nullable(Timestamp) },
  { $id: 'CredentialReply' },
);
export type CredentialReply = Static<typeof CredentialReply>;
export const TaskKeysReply = Type.Object(
  {
    task_keys: Type.Array(TaskKey),
    former_task_keys: Type.Array(TaskKey),
    task_key_refresh_seconds: Type.Number(),
  },
  { $id: 'TaskKeysReply' },
);
export type TaskKeysReply = Static<typeof TaskKeysReply>;
export const Acknowledged = Type.Object({ ok: Type.Literal(true) }, { $id: 'Acknowledged' });

export const BundleQuery = Type.Object(
  {
    sha256: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'Returns the file with this digest, even if it is not the newest.',
      }),
    ),
  },
  { ...strict, $id: 'BundleQuery' },
);
